"""What a caller can mistype is told by one sentence, where it stands, and nothing comes of it."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import semel
from semel.client.outcome import MustStop
from semel.errors import ConfigError, InvalidTopic, NotInOrder, OffsetOutOfRange
from semel.testing import Broker
from support import topics
from support.command_line import Run
from support.command_line import run as run


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return topics.name_for(request)


SENDS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"topic": "bad name"}, InvalidTopic, "'bad name' has characters other than letters"),
    ({"topic": ""}, InvalidTopic, "a topic needs a name"),
    ({"topic": 5}, ConfigError, "a topic is named by text, not by 5"),
    ({"partition": "1"}, TypeError, "partition is '1': it has to be a number"),
    ({"headers": ["a"]}, TypeError, "headers are a mapping, or pairs of name and value; 'a' is"),
    ({"headers": [("a", b"1", 2)]}, TypeError, "headers are a mapping, or pairs"),
    ({"timestamp_ms": "now"}, TypeError, "timestamp_ms is 'now': it has to be a whole number"),
    ({"value": float("nan")}, TypeError, "cannot be written (JSON has no number nan)"),
    ({"value": {"sums": [1.5, float("-inf")]}}, TypeError, "(JSON has no number -inf)"),
]


@pytest.mark.parametrize(("given", "kind", "sentence"), SENDS, ids=str)
def test_what_cannot_be_sent_is_told_and_nothing_is_stored(
    semel_broker: Broker, name: str, given: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    with semel.Admin(semel_broker.bootstrap_servers) as admin:
        admin.create_topics(name, partitions=2)
        arguments: dict[str, Any] = {"topic": name, "value": "x", **given}
        producer = semel.Producer(semel_broker.bootstrap_servers)
        with producer, pytest.raises(kind) as refused:
            producer.send(**arguments)
        assert sentence in str(refused.value)
        assert sum(admin.end_offsets(name).values()) == 0


@pytest.mark.parametrize("option", ["linger_ms", "block_timeout_ms"])
def test_a_time_below_zero_is_no_option(option: str) -> None:
    options: dict[str, Any] = {option: -1}
    with pytest.raises(ConfigError, match=f"{option} is -1, and cannot be negative"):
        semel.Producer("127.0.0.1:9", **options)


def test_a_transaction_within_another_is_told(semel_broker: Broker, name: str) -> None:
    producer = semel.Producer(semel_broker.bootstrap_servers, transactional_id=name)
    refused = pytest.raises(NotInOrder, match="open already: commit or abort it before")
    with producer, producer.transaction(), refused:
        producer.transaction().__enter__()


@pytest.mark.parametrize(("topic", "kind"), [("bad name", InvalidTopic), (3, ConfigError)])
def test_what_can_be_no_topic_is_not_waited_for(
    semel_broker: Broker, name: str, topic: Any, kind: type[Exception]
) -> None:
    with semel.Consumer(semel_broker.bootstrap_servers, name) as consumer:
        with pytest.raises(kind, match=r"a topic is named by text|topic name 'bad name'"):
            consumer.subscribe([topic])
        with pytest.raises(NotInOrder, match="nothing is read"):
            consumer.poll(1)


def test_of_several_topics_none_is_made_if_one_is_refused(semel_broker: Broker, name: str) -> None:
    with semel.Admin(semel_broker.bootstrap_servers) as admin:
        with pytest.raises(InvalidTopic, match="'bad name' has characters other than"):
            admin.create_topics([name, "bad name"])
        assert name not in admin.list_topics()
        admin.create_topics(name)
        admin.create_topics([name, f"{name}-2"], exist_ok=True)
        assert {name, f"{name}-2"} <= {*admin.list_topics()}


PLACE = semel.TopicPartition("orders", 0)
NO_PARTITIONS = "partitions are named by TopicPartition, not by "
CALLS: list[tuple[Callable[[Any], object], str]] = [
    (lambda admin: admin.create_topics(5), "names are text, or a list of it; 5 is none"),
    (lambda admin: admin.create_topics("t", partitions="3"), "partitions is '3', and must be a"),
    (lambda admin: admin.create_topics("t", configs="x"), "configs is 'x': it has to be a dict"),
    (lambda admin: admin.create_partitions("t", "9"), "total is '9', and must be a number"),
    (lambda admin: admin.set_offsets("g", {"orders": 1}), "for a TopicPartition, not 1 for 'orde"),
    (lambda admin: admin.set_offsets("g", {PLACE: "end"}), "a whole number for a TopicPartition"),
    (lambda admin: admin.set_offsets("g", {(5, 0): 1}), "for a TopicPartition, not 1 for (5, 0)"),
    (lambda admin: admin.set_offsets("g", {PLACE: -7}), "orders-0 is -7: it cannot be negative"),
    (lambda admin: admin.set_offsets("g", {PLACE: 2**63}), f"orders-0 is {2**63}: no log has so"),
    (lambda admin: admin.set_offsets("g", [PLACE]), "a dictionary of TopicPartition and offset, n"),
    (lambda admin: admin.delete_records({"orders": 1}), "for a TopicPartition, not 1 for 'orders'"),
    (lambda admin: admin.delete_records("orders"), "TopicPartition and offset, not 'orders'"),
    (lambda admin: admin.create_topics(["d", "e", "d"]), "topic d is named twice"),
]


@pytest.mark.parametrize(("call", "sentence"), CALLS, ids=[each for _, each in CALLS])
def test_what_is_no_argument_is_told_before_a_cluster_is_asked(
    call: Callable[[Any], object], sentence: str
) -> None:
    with semel.Admin("127.0.0.1:9") as admin, pytest.raises(ConfigError) as refused:
        call(admin)
    assert sentence in str(refused.value)


def test_ids_are_text() -> None:
    number: Any = 5
    with pytest.raises(ConfigError, match="transactional_id is 5: it has to be text"):
        semel.Producer("127.0.0.1:9", transactional_id=number)
    with pytest.raises(ConfigError, match="the group is 5: it has to be text"):
        semel.Consumer("127.0.0.1:9", number)


def test_offsets_are_committed_for_partitions(semel_broker: Broker, name: str) -> None:
    offsets: Any = {"orders": 1}
    with semel.Consumer(semel_broker.bootstrap_servers, name) as consumer:
        consumer.subscribe(name)
        with pytest.raises(TypeError, match="partitions are named by TopicPartition"):
            consumer.commit(offsets)


OFFSETS: list[tuple[Any, str]] = [
    ({PLACE: -7}, "the offset of orders-0 is -7: it cannot be negative"),
    ({PLACE: 2**63}, f"the offset of orders-0 is {2**63}: no log has so many records"),
    ({PLACE: "x"}, "an offset is a whole number for a TopicPartition, not 'x' for Topic"),
    ({("orders", 0): 1.5}, "an offset is a whole number for a TopicPartition, not 1.5 for"),
    ([PLACE], "offsets are a dictionary of TopicPartition and offset, not ["),
]


@pytest.mark.parametrize(("offsets", "sentence"), OFFSETS, ids=[each for _, each in OFFSETS])
def test_what_is_no_offset_is_not_committed(
    semel_broker: Broker, name: str, offsets: Any, sentence: str
) -> None:
    servers = semel_broker.bootstrap_servers

    async def commit() -> None:
        async with semel.AsyncConsumer(servers, name) as consumer:
            await consumer.commit(offsets)

    with semel.Consumer(servers, name) as consumer:
        calls: list[Callable[[], object]] = [
            lambda: consumer.commit(offsets),
            lambda: consumer.commit_later(offsets),
            lambda: asyncio.run(commit()),
        ]
        for call in calls:
            with pytest.raises(ConfigError) as refused:
                call()
            assert sentence in str(refused.value)
    with semel.Admin(servers) as admin:
        assert admin.committed_offsets(name) == {}


@pytest.mark.parametrize(("offsets", "sentence"), OFFSETS, ids=[each for _, each in OFFSETS])
def test_what_is_no_offset_is_no_part_of_a_transaction(
    semel_broker: Broker, name: str, offsets: Any, sentence: str
) -> None:
    servers = semel_broker.bootstrap_servers
    with semel.Admin(servers) as admin:
        admin.create_topics(name)
        with semel.Producer(servers, transactional_id=name) as producer, producer.transaction():
            with pytest.raises(ConfigError) as refused:
                producer.send_offsets_to_transaction(offsets, name)
            assert sentence in str(refused.value)
            # The transaction is as it was.
            producer.send_offsets_to_transaction({semel.TopicPartition(name, 0): 3}, name)
        assert admin.committed_offsets(name) == {semel.TopicPartition(name, 0): 3}


READS: list[tuple[Callable[[Any], object], type[Exception], str]] = [
    (lambda consumer: consumer.poll("x"), ConfigError, "timeout_ms is 'x', and must be a number"),
    (lambda consumer: consumer.poll_arrow("x"), ConfigError, "timeout_ms is 'x', and must be"),
    (lambda consumer: consumer.poll(1, "x"), ConfigError, "max_records is 'x': it has to be a w"),
    (lambda consumer: consumer.poll(1, 2.5), ConfigError, "max_records is 2.5: it has to be a w"),
    (lambda consumer: consumer.poll(1, -1), ConfigError, "max_records is -1, and cannot be neg"),
    (
        lambda consumer: consumer.seek(PLACE, "a"),
        TypeError,
        "the offset of orders-0 is 'a': it has to be a whole number",
    ),
    (lambda consumer: consumer.seek(PLACE, 2**63), OffsetOutOfRange, "orders-0 has no offset 92"),
    (lambda consumer: consumer.seek("orders", 1), TypeError, NO_PARTITIONS),
    (lambda consumer: consumer.position("orders"), TypeError, NO_PARTITIONS),
    (lambda consumer: consumer.pause("orders"), TypeError, NO_PARTITIONS),
    (lambda consumer: consumer.pause(PLACE), TypeError, NO_PARTITIONS),
    (lambda consumer: consumer.resume("orders"), TypeError, NO_PARTITIONS),
    (lambda consumer: consumer.seek_to_beginning("orders"), TypeError, NO_PARTITIONS),
    (lambda consumer: consumer.seek_to_end("orders"), TypeError, NO_PARTITIONS),
    (lambda consumer: consumer.seek_to_time(0, "orders"), TypeError, NO_PARTITIONS),
    (lambda consumer: consumer.committed("orders"), TypeError, NO_PARTITIONS),
]


@pytest.mark.parametrize(
    ("call", "kind", "sentence"), READS, ids=[f"{n}-{each[2]}" for n, each in enumerate(READS)]
)
def test_what_a_consumer_cannot_do_is_told_and_changes_nothing(
    call: Callable[[Any], object], kind: type[Exception], sentence: str
) -> None:
    async def work() -> None:
        async with semel.AsyncConsumer("127.0.0.1:9", "g", enable_auto_commit=False) as consumer:
            consumer.assign([PLACE])
            outcome = call(consumer)
            if inspect.isawaitable(outcome):
                await outcome

    with semel.Consumer("127.0.0.1:9", "g", enable_auto_commit=False) as consumer:
        consumer.assign([PLACE])
        acts: list[Callable[[], object]] = [lambda: call(consumer), lambda: asyncio.run(work())]
        for act in acts:
            with pytest.raises(kind) as refused:
                act()
            assert sentence in str(refused.value)
        assert consumer.assignment == {PLACE}
        assert not consumer.paused


@pytest.mark.parametrize("given", [None, 5])
def test_what_names_no_topics_is_no_subscription(given: Any) -> None:
    async def work() -> None:
        async with semel.AsyncConsumer("127.0.0.1:9", "g") as consumer:
            await consumer.subscribe(given)

    with semel.Consumer("127.0.0.1:9", "g") as consumer:
        acts: list[Callable[[], object]] = [
            lambda: consumer.subscribe(given),
            lambda: asyncio.run(work()),
        ]
        for act in acts:
            with pytest.raises(
                ConfigError, match=f"named by text, or a list of it, not by {given}"
            ):
                act()
        assert consumer.subscription == frozenset()


def test_a_timeout_that_the_broker_does_not_allow_is_told_with_its_setting(
    semel_broker: Broker, name: str
) -> None:
    producer = semel.Producer(
        semel_broker.bootstrap_servers, transactional_id=name, transaction_timeout_ms=10**9
    )
    with producer, pytest.raises(MustStop) as refused, producer.transaction():
        pytest.fail("a transaction was begun")
    reason = "transaction_timeout_ms is more than the broker's transaction.max.timeout.ms"
    assert str(refused.value) == (f"transactional id {name}: invalid transaction timeout: {reason}")


def declared(**options: Any) -> Callable[[], object]:
    def declare() -> object:
        app = semel.App("127.0.0.1:9")

        arguments: dict[str, Any] = {"topics": "orders", "group": "g", **options}

        @app.listener(**arguments)
        def work(record: semel.Record) -> None: ...

        return app.listeners

    return declare


@pytest.mark.parametrize("options", [{"topics": "bad name"}, {"dead_letters": "bad name"}])
def test_a_listener_of_what_can_be_no_topic_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidTopic, match="topic name 'bad name' has characters"):
        declared(**options)()


def test_a_mistake_in_an_application_is_one_sentence_with_its_line(
    run: Run, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mistyped.py").write_text(
        "import semel\napp = semel.App()\n\n@app.listener('orders', group='g', retires=3)\n"
        "def work(record): ...\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    code, out, err = run("run", "mistyped:app")
    assert (code, out) == (2, "")
    sentence = "there is no listener option 'retires'; did you mean 'retries'?"
    assert err == f"semel: {tmp_path}/mistyped.py: line 4: {sentence}\n"
