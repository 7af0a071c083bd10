"""What a consumer hands out: positions, seeks, pauses, commits, isolation and columns."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest

from semel import AsyncConsumer, AsyncProducer, Record
from semel.client.consuming.record import TimestampType
from semel.client.consuming.refusals import NoOffset, UndeliverableRecord
from semel.errors import NotInOrder, OffsetOutOfRange, UnknownTopicOrPartition
from semel.testing import Broker
from semel.types import TopicPartition
from support import topics


@pytest.fixture
def servers(semel_broker: Broker) -> str:
    return semel_broker.bootstrap_servers


@pytest.fixture
def topic(servers: str, request: pytest.FixtureRequest) -> str:
    name = topics.name_for(request)
    topics.create(servers, name, 2)
    return name


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


async def read(consumer: AsyncConsumer, count: int) -> list[Record]:
    """So many records, and none more."""
    records: list[Record] = []
    while len(records) < count:
        polled = await consumer.poll(30_000, count - len(records))
        assert polled, f"{len(records)} of {count} came"
        records += polled
    return records


async def values(consumer: AsyncConsumer, count: int) -> list[int]:
    return [int(record.value) for record in await read(consumer, count)]


def numbers(begin: int, end: int) -> list[bytes]:
    return [str(number).encode() for number in range(begin, end)]


def test_a_record_comes_as_it_was_sent(servers: str, topic: str) -> None:
    async def work() -> None:
        async with AsyncProducer(servers) as producer:
            headers = [("h", b"1"), ("h", None)]
            await producer.send(topic, b"v", b"k", headers=headers, timestamp_ms=1_234, partition=1)
            await producer.send(topic, None, None, timestamp_ms=5, partition=1)
        async with AsyncConsumer(servers) as consumer:
            consumer.assign([TopicPartition(topic, 1)])
            assert await read(consumer, 2) == [
                Record(
                    topic, 1, 0, 1_234, TimestampType.CREATE_TIME, b"k", b"v",
                    (("h", b"1"), ("h", None)),
                ),
                Record(topic, 1, 1, 5, TimestampType.CREATE_TIME, None, None, ()),
            ]  # fmt: skip

    run(work())


def test_a_consumer_goes_wherever_it_is_sent(servers: str, topic: str) -> None:
    topics.fill(servers, topic, numbers(0, 50), 0, [1_000 + number for number in range(50)])
    one, other = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def work() -> None:
        async with AsyncConsumer(servers) as consumer:
            consumer.assign([one, other])
            assert await values(consumer, 3) == [0, 1, 2]
            assert await consumer.position(one) == 3
            assert await consumer.lag() == {one: 47, other: 0}
            consumer.seek(one, 40)
            assert await values(consumer, 2) == [40, 41]
            await consumer.seek_to_beginning([one])
            assert await values(consumer, 2) == [0, 1]
            await consumer.seek_to_time(1_030)
            assert await values(consumer, 2) == [30, 31]
            moment = datetime(1970, 1, 1, 0, 0, 1, 20_000, tzinfo=UTC)
            # As a clock on the wall has it, too.
            for time in (moment, moment.astimezone().replace(tzinfo=None)):
                await consumer.seek_to_time(time)
                assert await values(consumer, 2) == [20, 21]
            await consumer.seek_to_end()
            assert await consumer.position(one) == 50
            assert await consumer.poll(0) == []
            await asyncio.to_thread(topics.fill, servers, topic, [b"50"])
            assert await values(consumer, 1) == [50]
            await consumer.seek_to_time(10**14)
            assert await consumer.position(one) == 51
            with pytest.raises(UnknownTopicOrPartition, match="not assigned"):
                consumer.seek(TopicPartition(topic, 9), 0)

    run(work())


def test_paused_partitions_wait_and_lose_nothing(servers: str, topic: str) -> None:
    topics.fill(servers, topic, numbers(0, 100), 0)
    topics.fill(servers, topic, numbers(1_000, 1_100), 1)
    one, other = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def work() -> None:
        async with AsyncConsumer(servers) as consumer:
            consumer.assign([one, other])
            seen = await values(consumer, 1)
            # Both may be fetched by now, and only one may be handed out.
            consumer.pause([one])
            assert consumer.paused == {one}
            while len([each for each in seen if each >= 1_000]) < 100:
                seen += await values(consumer, 1)
            paused_at = len([each for each in seen if each < 1_000])
            assert await consumer.poll(300) == []
            assert await consumer.position(one) == paused_at <= 1
            consumer.resume([one])
            seen += await values(consumer, 100 - paused_at)
            assert sorted(seen) == [*range(100), *range(1_000, 1_100)]

    run(work())


def test_only_what_is_committed_is_read(servers: str, topic: str) -> None:
    topics.fill(servers, topic, [b"0"])
    with topics.transaction(servers, f"{topic}-1") as producer:
        topics.fill_transaction(producer, topic, [b"1", b"2"])
        producer.abort_transaction(30)
    with topics.transaction(servers, f"{topic}-2") as producer:
        topics.fill_transaction(producer, topic, [b"3", b"4"])
        producer.commit_transaction(30)
    place = TopicPartition(topic, 0)

    async def work() -> None:
        async with AsyncConsumer(servers) as consumer:
            consumer.assign([place])
            assert await values(consumer, 3) == [0, 3, 4]
            # Markers take offsets, and are passed by.
            assert await consumer.position(place) == 7
        async with AsyncConsumer(servers, isolation="read_uncommitted") as consumer:
            consumer.assign([place])
            assert await values(consumer, 5) == [0, 1, 2, 3, 4]
        with topics.transaction(servers, f"{topic}-3") as producer:
            await asyncio.to_thread(topics.fill_transaction, producer, topic, [b"5"])
            async with AsyncConsumer(servers) as consumer:
                consumer.assign([place])
                await consumer.seek_to_end()
                assert await consumer.lag() == {place: 0}
                assert await consumer.poll(200) == []
                await asyncio.to_thread(producer.commit_transaction, 30)
                assert await values(consumer, 1) == [5]

    run(work())


def test_a_group_goes_on_where_it_committed(servers: str, topic: str) -> None:
    topics.fill(servers, topic, numbers(0, 20), 0)
    place = TopicPartition(topic, 0)

    async def work() -> None:
        done: list[object] = []
        called = asyncio.Event()

        def on_done(offsets: object, error: object) -> None:
            done.append((offsets, error))
            called.set()

        async with AsyncConsumer(servers, topic, enable_auto_commit=False) as consumer:
            await consumer.subscribe(topic)
            assert await values(consumer, 5) == [0, 1, 2, 3, 4]
            assert await consumer.committed() == {}
            await consumer.commit()
            assert (await consumer.committed())[place] == 5
            assert await values(consumer, 5) == [5, 6, 7, 8, 9]
            consumer.commit_later({place: 7}, on_done)
            await called.wait()
            assert done == [({place: 7}, None)]
            consumer.commit_later({place: 8}, on_done)
            # Leaving waits for that, and commits nothing by itself unless it was told to.
        assert done[1:] == [({place: 8}, None)]
        async with AsyncConsumer(servers, topic) as consumer:
            await consumer.subscribe([topic])
            assert await values(consumer, 2) == [8, 9]
        async with AsyncConsumer(servers, topic) as consumer:
            await consumer.subscribe([topic])
            assert await values(consumer, 1) == [10]

    run(work())


def test_commits_come_by_themselves_for_what_was_come_back_for(servers: str, topic: str) -> None:
    topics.fill(servers, topic, numbers(0, 20), 0)
    place = TopicPartition(topic, 0)

    async def work() -> None:
        async with AsyncConsumer(servers, topic, auto_commit_interval_ms=1) as consumer:
            await consumer.subscribe(topic)
            count = 0
            async for record in consumer:
                count += 1
                assert int(record.value) == count - 1
                # Never the record that is being worked on, however long that takes.
                for _ in range(3):
                    committed = await consumer.committed([place])
                    assert committed.get(place, 0) < count
                if count == 20:
                    break
            while await consumer.committed([place]) != {place: 20}:
                await consumer.poll(10)

    run(work())


def test_what_an_application_failed_at_is_not_committed(servers: str, topic: str) -> None:
    topics.fill(servers, topic, numbers(0, 20), 0)

    async def fail() -> None:
        async with AsyncConsumer(servers, topic) as consumer:
            await consumer.subscribe(topic)
            async for record in consumer:
                if int(record.value) == 5:
                    raise LookupError(record.value)

    async def work() -> None:
        with pytest.raises(LookupError):
            await fail()
        async with AsyncConsumer(servers, topic) as consumer:
            await consumer.subscribe(topic)
            assert await values(consumer, 1) == [0]

    run(work())


def test_a_topic_that_is_made_anew_is_read_from_its_new_beginning(servers: str, topic: str) -> None:
    topics.fill(servers, topic, numbers(0, 20), 0)
    place = TopicPartition(topic, 0)

    async def work() -> None:
        async with AsyncConsumer(servers, metadata_age_ms_max=100) as consumer:
            consumer.assign([place])
            assert await values(consumer, 20) == list(range(20))
            await asyncio.to_thread(topics.delete, servers, topic)
            await asyncio.to_thread(topics.create, servers, topic)
            await asyncio.to_thread(topics.fill, servers, topic, numbers(100, 103))
            assert await values(consumer, 3) == [100, 101, 102]

    run(work())


def test_one_poll_at_a_time(servers: str, topic: str) -> None:
    async def work() -> None:
        async with AsyncConsumer(servers) as consumer, asyncio.TaskGroup() as tasks:
            consumer.assign([TopicPartition(topic, 0)])
            first = tasks.create_task(consumer.poll(30_000))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            with pytest.raises(NotInOrder, match="one poll at a time"):
                await consumer.poll(0)
            await asyncio.to_thread(topics.fill, servers, topic, [b"0"])
            assert len(await first) == 1

    run(work())


def test_offsets_of_an_open_transaction_are_waited_for(servers: str, topic: str) -> None:
    topics.fill(servers, topic, numbers(0, 10), 0)
    place = TopicPartition(topic, 0)

    async def work() -> None:
        async with (
            AsyncProducer(servers, transactional_id=topic) as producer,
            AsyncConsumer(servers, topic, enable_auto_commit=False) as first,
        ):
            await first.subscribe(topic)
            assert await values(first, 4) == [0, 1, 2, 3]
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({place: 4}, first.membership)
            await first.unsubscribe()
            async with AsyncConsumer(servers, topic) as second:
                await second.subscribe(topic)
                # Nobody knows yet whether to begin at 0 or at 4.
                assert await second.poll(500) == []
                await producer.commit_transaction()
                assert await values(second, 1) == [4]

    run(work())


def test_where_nothing_is_committed_the_reset_says_where_to_begin(servers: str, topic: str) -> None:
    topics.fill(servers, topic, numbers(0, 10), 0)
    topics.delete_records(servers, topic, 4)
    place = TopicPartition(topic, 0)

    async def work() -> None:
        async with AsyncConsumer(servers, topic) as consumer:
            consumer.assign([place])
            assert await values(consumer, 1) == [4]
            # Gone by retention, as it were.
            consumer.seek(place, 1)
            assert await values(consumer, 1) == [4]
        async with AsyncConsumer(servers, topic, auto_offset_reset="latest") as consumer:
            consumer.assign([place, TopicPartition(topic, 1)])
            consumer.seek(place, 99)
            assert await consumer.poll(0) == []
            while await consumer.position(place) != 10:
                await consumer.poll(100)
        async with AsyncConsumer(servers, f"{topic}-new", auto_offset_reset="none") as consumer:
            consumer.assign([place])
            with pytest.raises(NoOffset, match="no committed offset"):
                await consumer.poll(30_000)
            with pytest.raises(NoOffset, match="seek"):
                await consumer.position(place)
            consumer.seek(place, 2)
            with pytest.raises(OffsetOutOfRange, match="offset 2 is not in"):
                await consumer.poll(30_000)
            consumer.seek(place, 8)
            assert await values(consumer, 2) == [8, 9]

    run(work())


def test_records_come_as_columns_too(servers: str, topic: str) -> None:
    pytest.importorskip("pyarrow")
    topics.fill(servers, topic, numbers(0, 100), 0)
    topics.fill(servers, topic, numbers(100, 200), 1)
    one = TopicPartition(topic, 0)

    async def work() -> None:
        async with AsyncConsumer(servers, topic) as consumer:
            consumer.assign([one, TopicPartition(topic, 1)])
            seen: list[int] = []
            while len(seen) < 150:
                rows = await consumer.poll_arrow(30_000, 30, ["value", "partition"])
                assert rows.schema.names == ["value", "partition"]
                assert 0 < rows.num_rows <= 30
                seen += [int(value) for value in rows.column("value").to_pylist()]
            # Records and columns are two views of one position.
            seen += await values(consumer, 20)
            while len(seen) < 200:
                seen += [
                    int(value)
                    for value in (await consumer.poll_arrow(30_000)).column("value").to_pylist()
                ]
            assert sorted(seen) == list(range(200))
            assert (await consumer.poll_arrow(0)).num_rows == 0
            await consumer.commit()
            assert (await consumer.committed())[one] == 100

    run(work())


def test_a_record_that_cannot_be_opened_waits_until_it_is_passed_by(
    servers: str, topic: str
) -> None:
    topics.fill(servers, topic, [b"0", b"1", b"two", b"3"], 0)
    place = TopicPartition(topic, 0)

    async def work() -> None:
        async with AsyncConsumer(servers, value_deserializer=int) as consumer:
            consumer.assign([place])
            assert [record.value for record in await consumer.poll(30_000)] == [0, 1]
            for _ in range(2):
                with pytest.raises(UndeliverableRecord, match="at offset 2") as caught:
                    await consumer.poll(30_000)
                assert isinstance(caught.value.__cause__, ValueError)
                assert await consumer.position(place) == 2
            consumer.seek(place, caught.value.offset + 1)
            assert [record.value for record in await consumer.poll(30_000)] == [3]

    run(work())


def test_a_record_is_not_lost_to_whoever_stops_waiting_for_it(servers: str, topic: str) -> None:
    count = 20
    for number in range(count):
        topics.fill(servers, topic, [str(number).encode()], 0)

    async def work() -> None:
        # Each record is a chunk of its own, behind which there is room for more.
        async with AsyncConsumer(servers, partition_size_max=1) as consumer:
            consumer.assign([TopicPartition(topic, 0)])

            async def take() -> None:
                value = int((await anext(consumer)).value)
                assert value == len(seen)
                seen.append(value)

            seen: list[int] = []
            engine = consumer._engine
            while len(seen) < count:
                assert await engine.serve(lambda: engine.positions.has_ready, None)
                hasty = asyncio.ensure_future(take())
                await asyncio.sleep(0)
                hasty.cancel()
                await asyncio.wait([hasty])
                if len(seen) < count:
                    await take()

    run(work())


def test_little_is_fetched_ahead_of_one_who_is_slow(servers: str, topic: str) -> None:
    count = 400
    for partition in (0, 1):
        topics.fill(servers, topic, [b"x" * 1_000] * count, partition)

    async def work() -> None:
        async with AsyncConsumer(
            servers, partition_size_max=10_000, fetch_size_max=20_000, buffered_size_max=30_000
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
            seen = 0
            async for _ in consumer:
                seen += 1
                if seen == 2 * count:
                    break
            assert await consumer.poll(0) == []

    run(work())
