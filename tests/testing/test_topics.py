"""Topics of one test: of a name of its own, or of a given name, and gone at its end."""

import pytest

import semel
from semel import App, Record
from semel.testing import Broker, Topics
from semel.types import TopicPartition

_seen: list[str] = []


@pytest.mark.parametrize("number", [1, 2])
def test_each_test_has_its_own(semel_topics: Topics, semel_broker: Broker, number: int) -> None:
    with semel.Admin(semel_broker.bootstrap_servers) as admin:
        assert admin.list_topics("testing-own-.*") == []
        first, second = semel_topics("testing-own", partitions=3), semel_topics("testing-own")
        assert admin.list_topics("testing-own-.*") == sorted([first, second])
        assert len(admin.describe_topics(first)[first].partitions) == 3
        kept = semel_topics("kept", retention_ms=77)
        assert admin.describe_configs("topic", kept)["retention.ms"].value == "77"
    assert first not in _seen
    _seen.extend([first, second])


@pytest.mark.parametrize("number", [1, 2])
def test_an_application_with_names_written_in_it_finds_each_time_what_the_test_has_sent(
    semel_topics: Topics, semel_broker: Broker, number: int
) -> None:
    semel_topics.named("testing-source", partitions=2)
    app, seen = App(semel_broker.bootstrap_servers), []

    @app.listener("testing-source", group="testing-named")
    def see(record: Record) -> None:
        seen.append(record.value)

    with semel.Producer(semel_broker.bootstrap_servers) as producer:
        for partition in range(2):
            producer.send("testing-source", f"{number}", partition=partition)
    app.run_until_idle()
    assert seen == [b"%d" % number] * 2


def test_what_was_there_under_a_name_is_gone(semel_broker: Broker) -> None:
    servers = semel_broker.bootstrap_servers
    with semel.Producer(servers) as producer:
        producer.send("testing-before", "left behind")
    with semel.Admin(servers) as admin:
        admin.set_offsets("testing-reader", {TopicPartition("testing-before", 0): 1})
        with Topics(servers, "a test") as topics:
            topics.named("testing-before")
            assert admin.end_offsets("testing-before") == {TopicPartition("testing-before", 0): 0}
            assert admin.committed_offsets("testing-reader") == {}
        assert admin.list_topics("testing-before") == []
