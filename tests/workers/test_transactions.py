"""Transactions over the lanes of several processes, under unmodified clients."""

import json
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from semel.cli.main import main
from semel.testing import Broker
from support.clients import QUIET

WORKERS = 3
PATIENCE_S = 60.0
SETTINGS = {"group.min.session.timeout.ms": 1000}


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("workers") / "data"
    with Broker(data=folder, settings=SETTINGS, workers=WORKERS) as broker:
        yield broker


def create(broker: Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    admin.create_topics([NewTopic(topic, WORKERS, 1)])[topic].result(PATIENCE_S)


def committed_values(broker: Broker, topic: str) -> list[list[bytes]]:
    found: list[list[bytes]] = []
    config = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "reader",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        **QUIET,
    }
    for index in range(WORKERS):
        consumer = confluent_kafka.Consumer(config)
        consumer.assign([confluent_kafka.TopicPartition(topic, index, 0)])
        values: list[bytes] = []
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
                break
            values.append(message.value())
        consumer.close()
        found.append(values)
    return found


@pytest.mark.parametrize("number", range(WORKERS))
def test_what_one_producer_commits_over_all_workers_is_read_whole(
    workers: Broker, number: int
) -> None:
    topic = f"whole{number}"
    create(workers, topic)
    config = {
        "bootstrap.servers": workers.bootstrap_servers,
        "transactional.id": f"producer{number}",
        **QUIET,
    }
    producer = confluent_kafka.Producer(config)
    producer.init_transactions(PATIENCE_S)
    offsets = [confluent_kafka.TopicPartition(topic, 0, 7)]
    group = f"group{number}"
    consumer_config = {
        "bootstrap.servers": workers.bootstrap_servers,
        "group.id": group,
        "enable.auto.commit": False,
        **QUIET,
    }
    consumer = confluent_kafka.Consumer(consumer_config)
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.2)
    for turn in range(4):
        producer.begin_transaction()
        for index in range(WORKERS):
            producer.produce(topic, b"%d" % turn, partition=index)
        producer.send_offsets_to_transaction(
            offsets, consumer.consumer_group_metadata(), PATIENCE_S
        )
        if turn % 2:
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
    (committed,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], PATIENCE_S)
    consumer.close()
    assert committed.offset == 7
    assert committed_values(workers, topic) == [[b"0", b"2"]] * WORKERS


def test_the_timeline_tells_which_lanes_took_part_and_how_they_voted(
    workers: Broker, capfd: pytest.CaptureFixture[str]
) -> None:
    create(workers, "told")
    servers = workers.bootstrap_servers
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "transactional.id": "told", **QUIET}
    )
    producer.init_transactions(PATIENCE_S)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for index in range(WORKERS):
            producer.produce("told", b"value", partition=index)
        assert producer.flush(PATIENCE_S) == 0
        end(PATIENCE_S)
    capfd.readouterr()
    assert main(["txn", "timeline", "told", "--json", "-b", servers]) == 0
    committed, aborted = json.loads(capfd.readouterr().out)
    assert [committed["outcome"], aborted["outcome"]] == ["committed", "aborted"]
    assert [committed["vote"], aborted["vote"]] == ["yes", None]
    for story in (committed, aborted):
        lanes = [story["coordinator"], *story["lanes"]]
        assert sorted(each["lane"] for each in lanes) == list(range(WORKERS))
        assert {each["term"] for each in lanes} == {0}
    assert main(["txn", "timeline", "told", "-n", "1", "-b", servers]) == 0
    out = capfd.readouterr().out
    for lane in aborted["lanes"]:
        assert f", lane {lane['lane']} in term 0" in out


def test_transactions_are_whole_while_workers_are_killed(tmp_path: Path) -> None:
    """Each attempt has a number of its own: it is in all partitions or in none."""
    kills = 2 * WORKERS
    with Broker(data=tmp_path / "data", settings=SETTINGS, workers=WORKERS) as broker:
        create(broker, "torn")
        config = {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": "copier",
            **QUIET,
        }
        acknowledged: list[bytes] = []
        attempt = killed = 0
        producer: confluent_kafka.Producer | None = None
        while killed < kills or len(acknowledged) < 10 * kills:
            attempt += 1
            assert attempt < 100 * kills
            value = b"%d" % attempt
            try:
                if producer is None:
                    producer = confluent_kafka.Producer(config)
                    producer.init_transactions(PATIENCE_S)
                producer.begin_transaction()
                for index in range(WORKERS):
                    producer.produce("torn", value, partition=index)
                    if killed < kills and attempt % 10 == 3 + index:
                        broker.kill_worker(killed % WORKERS + 1)
                        killed += 1
                producer.commit_transaction(PATIENCE_S)
            except confluent_kafka.KafkaException as error:
                if producer is not None and error.args[0].txn_requires_abort():
                    producer.abort_transaction(PATIENCE_S)
                else:
                    producer = None
            else:
                acknowledged.append(value)
        shown = committed_values(broker, "torn")
    assert shown[0] == shown[1] == shown[2]
    assert set(acknowledged) <= set(shown[0])
    assert len(set(shown[0])) == len(shown[0])
