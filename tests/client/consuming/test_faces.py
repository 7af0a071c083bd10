"""The consumer for code that blocks, and what both faces refuse."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

import semel
from semel.client.consuming import metadata_refresh
from semel.errors import ConfigError, NotInOrder, OffsetOutOfRange, RebalanceInProgress
from semel.testing import Broker
from semel.types import TopicPartition
from support import topics


@pytest.fixture
def servers(semel_broker: Broker) -> str:
    return semel_broker.bootstrap_servers


@pytest.fixture
def topic(servers: str, request: pytest.FixtureRequest) -> str:
    name = topics.name_for(request)
    topics.create(servers, name, 4)
    return name


def test_blocking_members_in_threads_read_each_record_once(servers: str, topic: str) -> None:
    count = 400
    seen: list[tuple[int, int]] = []
    told: list[tuple[str, str]] = []
    is_over = threading.Event()
    has_share = {"a": threading.Event(), "b": threading.Event()}

    def read(name: str) -> None:
        def callback(kind: str) -> Callable[[Sequence[TopicPartition]], None]:
            # In the thread that polls, where it may wait for the consumer.
            def called(places: Sequence[TopicPartition]) -> None:
                told.append((kind, threading.current_thread().name))
                if kind == "assigned" and places:
                    has_share[name].set()
                if kind == "revoked":
                    # At the end the other may have left, and this one be between two generations.
                    with suppress(*([RebalanceInProgress] if is_over.is_set() else [])):
                        consumer.commit()

            return called

        with semel.Consumer(
            servers, topic, heartbeat_interval_ms=100, enable_auto_commit=False
        ) as consumer:
            consumer.subscribe(
                [topic],
                on_assigned=callback("assigned"),
                on_revoked=callback("revoked"),
            )
            while not is_over.is_set():
                seen.extend((each.partition, each.offset) for each in consumer.poll(50, 7))
                if len(seen) >= 4 * count:
                    is_over.set()

    threads = [threading.Thread(target=read, args=(name,), name=name) for name in has_share]
    for thread in threads:
        thread.start()
    for event in has_share.values():
        assert event.wait(60)
    for partition in range(4):
        topics.fill(servers, topic, [b"x"] * count, partition)
    for thread in threads:
        thread.join()
    assert sorted(seen) == [(place, offset) for place in range(4) for offset in range(count)]
    assert {name for _, name in told} == {"a", "b"}
    assert [kind for kind, name in told if name == "a"][-1] == "revoked"


def test_the_blocking_face_does_what_the_other_does(servers: str, topic: str) -> None:
    topics.fill(servers, topic, [str(n).encode() for n in range(10)], 0)
    place = TopicPartition(topic, 0)
    with semel.Consumer(servers, topic, value_deserializer=int) as consumer:
        consumer.assign([place])
        assert [next(consumer).value for _ in range(3)] == [0, 1, 2]
        assert consumer.position(place) == 3
        assert consumer.lag() == {place: 7}
        assert consumer.poll(0, max_records=0) == []
        consumer.pause([place])
        assert consumer.paused == consumer.assignment == {place}
        assert consumer.poll(50) == []
        consumer.resume([place])
        consumer.seek(place, 8)
        assert [record.value for record in consumer.poll(30_000)] == [8, 9]
        consumer.seek_to_beginning()
        assert consumer.poll_arrow(30_000, 4).num_rows == 4
        consumer.commit()
        assert consumer.committed() == {place: 4}
        done = threading.Event()
        consumer.commit_later({place: 5}, lambda offsets, error: done.set())
        assert done.wait(30)
        consumer.seek_to_time(0)
        consumer.seek_to_end([place])
        assert consumer.position(place) == 10
        assert consumer.subscription == frozenset()
        assert consumer.membership.generation_id == -1


def test_a_callback_that_fails_is_raised_by_poll_and_the_group_goes_on(
    servers: str, topic: str
) -> None:
    async def work() -> None:
        def fail(places: object) -> None:
            raise LookupError("no shelf for these")

        async with semel.AsyncConsumer(servers, topic) as consumer:
            await consumer.subscribe(topic, on_assigned=fail)
            with pytest.raises(LookupError):
                await consumer.poll(30_000)
            await asyncio.to_thread(topics.fill, servers, topic, [b"x"])
            assert len(await consumer.poll(30_000)) == 1

    asyncio.run(work())


def test_a_callback_may_seek_and_commit(servers: str, topic: str) -> None:
    topics.fill(servers, topic, [str(n).encode() for n in range(10)], 0)
    place = TopicPartition(topic, 0)

    async def work() -> None:
        async with semel.AsyncConsumer(servers, topic, enable_auto_commit=False) as consumer:

            async def assigned(places: object) -> None:
                assert await consumer.position(place) == 0
                consumer.seek(place, 6)

            async def revoked(places: object) -> None:
                await consumer.commit()

            await consumer.subscribe(topic, on_assigned=assigned, on_revoked=revoked)
            assert (await consumer.poll(30_000, 1))[0].offset == 6
            await consumer.unsubscribe()
            assert await consumer.committed([place]) == {place: 7}

    asyncio.run(work())


def test_whoever_is_interrupted_while_records_are_opened_gets_them_again(
    servers: str, topic: str
) -> None:
    topics.fill(servers, topic, [b"0", b"1", b"2"], 0)
    interruptions = [KeyboardInterrupt()]

    def open_value(value: bytes) -> int:
        if value == b"1" and interruptions:
            raise interruptions.pop()
        return int(value)

    with semel.Consumer(servers, value_deserializer=open_value) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(30_000)
        assert [record.value for record in consumer.poll(30_000)] == [0, 1, 2]


def test_an_asynchronous_consumer_that_is_closed_opens_no_connections(
    servers: str, topic: str
) -> None:
    async def work() -> None:
        async with semel.AsyncConsumer(servers, topic) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
        for late in (consumer.lag(), consumer.committed(), consumer.commit()):
            with pytest.raises(NotInOrder, match="closed"):
                await late
        with pytest.raises(NotInOrder, match="closed"):
            consumer.commit_later()

    asyncio.run(work())


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]


def poll_until_warned(consumer: semel.Consumer, caplog: pytest.LogCaptureFixture) -> None:
    while not _warnings(caplog):
        assert consumer.poll(20) == []
    # There was time to say it again.
    assert consumer.poll(200) == []


def test_what_does_not_exist_is_warned_of_once(
    servers: str,
    topic: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_refresh, "_MISSING_PAUSE_S", 0.01)
    with semel.Consumer(servers) as consumer:
        consumer.assign(
            [TopicPartition(topic, 0), TopicPartition(topic, 4), TopicPartition(topic, -1)]
        )
        poll_until_warned(consumer, caplog)
    assert _warnings(caplog) == [
        f"partition {topic}-{number} does not exist: the topic has 4; it is read when it is there"
        for number in (-1, 4)
    ]
    caplog.clear()
    with semel.Consumer(servers, topic) as consumer:
        consumer.subscribe([topic, f"{topic}-misspelt"])
        poll_until_warned(consumer, caplog)
    assert _warnings(caplog) == [
        f"topic {topic}-misspelt does not exist; it is read when it is there"
    ]


def test_mistakes_are_named(servers: str, topic: str) -> None:
    for options, message in [
        ({"assignor": "magic"}, "magic"),
        ({"assignor": ()}, "assignor"),
        ({"isolation": "read_all"}, "read_all"),
        ({"auto_offset_reset": "middle"}, "middle"),
        ({"heartbeat_interval_ms": 99_000}, "heartbeat_interval_ms"),
        ({"max_poll_records": 0}, "max_poll_records"),
        ({"group_instance_id": ""}, "group_instance_id"),
        ({"auto_offset_rest": "latest"}, "did you mean 'auto_offset_reset'"),
        ({"group_id": "g"}, "no consumer option 'group_id'; did you mean 'group'"),
    ]:
        with pytest.raises(ConfigError, match=message):
            semel.Consumer(servers, topic, **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="needs a group"):
        semel.Consumer(servers, group_instance_id="one")
    with semel.Consumer(servers) as consumer:
        with pytest.raises(NotInOrder, match="nothing is read"):
            consumer.poll(0)
        with pytest.raises(NotInOrder, match="without a group"):
            consumer.subscribe(topic)
        with pytest.raises(NotInOrder, match="without a group"):
            consumer.commit()
        for wrong in (topic, TopicPartition(topic, 0), [topic], None):
            with pytest.raises(TypeError, match="partitions are named by TopicPartition, not by"):
                consumer.assign(wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a topic is named by a str, not 1"):
            consumer.assign([(1, 0)])  # type: ignore[list-item]
        consumer.assign([TopicPartition(topic, 0)])
        with pytest.raises(TypeError, match=r"whole milliseconds since 1970, not 1\.5"):
            consumer.seek_to_time(1.5)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="max_records is -1"):
            consumer.poll(0, -1)
        with pytest.raises(OffsetOutOfRange, match="-5"):
            consumer.seek(TopicPartition(topic, 0), -5)
    for late in (lambda: consumer.poll(0), consumer.lag, lambda: consumer.seek_to_time(0)):
        with pytest.raises(NotInOrder, match="closed"):
            late()
    consumer.close()
    with semel.Consumer(servers, topic) as consumer:
        consumer.subscribe(topic)
        with pytest.raises(NotInOrder, match="unsubscribe"):
            consumer.assign([TopicPartition(topic, 0)])
    with pytest.raises(NotInOrder, match="not started"):
        asyncio.run(semel.AsyncConsumer(servers).poll(0))
