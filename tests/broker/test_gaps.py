"""Logs with gaps in their offsets, batches without records, and starts within a batch."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from semel.broker.broker import Broker
from semel.errors import NONE, OffsetOutOfRange
from semel.journal.file.memory import MemoryDevice
from semel.records.batch import LOG_APPEND_TIME, BatchHeader, read, sealed, split
from semel.records.records import Record, encode_batch
from semel.types import TopicPartition
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from semel.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from support.compacted_log import CompactedLog, compacted_log, emptied, thinned
from support.handled import CONFIG, call, opened, started
from support.inside import journal_of, store
from support.seeded_loop import run

PLACE = TopicPartition("t", 0)
FILLER = TopicPartition("filler", 0)
READ_COMMITTED = 1
YOUNGEST = -3
SIZE_MAX = 2**20


def with_broker(
    scenario: Callable[[Broker, MemoryDevice], Awaitable[None]], tail_bytes: int = SIZE_MAX
) -> None:
    async def main() -> None:
        device = MemoryDevice(Random(1))
        broker = opened(device, Random(1), replace(CONFIG, journal_tail_bytes=tail_bytes))
        async with started(broker):
            topics = [CreatableTopic(place.topic, 1, 1) for place in (PLACE, FILLER)]
            await call(broker, "create_topics", 5, CreateTopicsRequest(topics))
            await scenario(broker, device)

    run(Random(1), main())


async def fetched(
    broker: Broker, offset: int, *, isolation: int = 0, size_max: int = SIZE_MAX
) -> PartitionData:
    wanted = FetchPartition(0, -1, offset, partition_max_bytes=size_max)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=size_max,
        isolation_level=isolation,
        topics=[FetchTopic("t", [wanted])],
    )
    ((data,),) = (
        topic.partitions for topic in (await call(broker, "fetch", 12, request)).responses
    )
    assert isinstance(data, PartitionData)
    return data


def headers_of(data: PartitionData) -> list[BatchHeader]:
    records: Any = data.records or []
    content = b"".join(records) if isinstance(records, list) else bytes(records)
    return [header for header, _ in split(content)]


async def list_offset(broker: Broker, timestamp_ms: int) -> tuple[int, int]:
    """Timestamp and offset."""
    wanted = ListOffsetsPartition(0, -1, timestamp_ms)
    request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [wanted])])
    ((found,),) = (
        topic.partitions for topic in (await call(broker, "list_offsets", 7, request)).topics
    )
    assert found.error_code == NONE
    return found.timestamp, found.offset


async def delete_before(broker: Broker, offset: int) -> None:
    topic = DeleteRecordsTopic("t", [DeleteRecordsPartition(0, offset)])
    answer = await call(broker, "delete_records", 2, DeleteRecordsRequest([topic], 1000))
    assert answer.topics[0].partitions[0].error_code == NONE


async def stored(broker: Broker, log: CompactedLog) -> None:
    store(broker, PLACE, log.batches, log.aborted)
    await broker.lanes.controller.until_durable()
    await delete_before(broker, log.start)


@pytest.mark.parametrize("isolation", [0, READ_COMMITTED])
def test_a_fetch_begins_with_the_first_batch_that_reaches_the_offset(isolation: int) -> None:
    log = compacted_log()
    headers = [read(batch) for batch in log.batches]

    async def scenario(broker: Broker, device: MemoryDevice) -> None:
        await stored(broker, log)
        for offset in range(log.start, log.end):
            owed = [each for each in headers if each.last_offset >= offset]
            assert headers_of(await fetched(broker, offset, isolation=isolation)) == owed
            one = await fetched(broker, offset, isolation=isolation, size_max=1)
            assert headers_of(one) == owed[:1]
        assert headers_of(await fetched(broker, log.end, isolation=isolation)) == []
        below = await fetched(broker, log.start - 1, isolation=isolation)
        assert below.error_code == OffsetOutOfRange.code

    with_broker(scenario)


def test_aborted_transactions_are_those_that_reach_into_what_was_read() -> None:
    log = compacted_log()

    async def scenario(broker: Broker, device: MemoryDevice) -> None:
        await stored(broker, log)
        for offset in range(log.start, log.end):
            for size_max in (1, SIZE_MAX):
                data = await fetched(broker, offset, isolation=READ_COMMITTED, size_max=size_max)
                end = headers_of(data)[-1].last_offset + 1
                told = [
                    (each.producer_id, each.first_offset)
                    for each in data.aborted_transactions or ()
                ]
                assert told == [
                    (each.producer_id, each.first_offset)
                    for each in log.aborted
                    if each.first_offset < end and each.marker_offset >= offset
                ]

    with_broker(scenario)


def batch_of(rng: Random, base_offset: int) -> bytes:
    count = rng.randint(1, 6)
    offsets = range(base_offset, base_offset + count)
    records = [Record(b"%d" % offset, b"", 1_000 + offset) for offset in offsets]
    whole = encode_batch(records, base_offset=base_offset, leader_epoch=0)
    kept = [offset for offset in offsets if rng.random() < 0.5]
    return thinned(whole, kept) if kept else emptied(whole)


@pytest.mark.parametrize("is_cold", [False, True])
def test_gaps_are_passed_over_wherever_the_batches_lie(is_cold: bool) -> None:
    """Over several segments, whose indexes are files, and most of which have none of them."""
    rng = Random(5)
    filler = encode_batch([Record(None, bytes(19_000), 0)], leader_epoch=0)

    async def scenario(broker: Broker, device: MemoryDevice) -> None:
        headers: list[BatchHeader] = []
        end = filled = 0
        for _ in range(60):
            batch = batch_of(rng, end + rng.choice((0, 0, 1, 20)))
            headers.append(read(batch))
            end = headers[-1].last_offset + 1
            store(broker, PLACE, [batch], ())
            for _ in range(rng.choice((0, 1, 40))):
                content = sealed(read(filler).replaced(base_offset=filled), filler[61:])
                store(broker, FILLER, [content], ())
                filled += 1
            await broker.lanes.controller.until_durable()
        assert len(journal_of(broker).segments.bases) > 5
        device.is_cold = is_cold
        for offset in range(end):
            owed = [each for each in headers if each.last_offset >= offset]
            assert headers_of(await fetched(broker, offset, size_max=1)) == owed[:1]
            assert headers_of(await fetched(broker, offset)) == owed
        device.is_cold = False

    with_broker(scenario, tail_bytes=0)


def test_a_time_is_found_behind_batches_without_records() -> None:
    log = compacted_log()
    times = [(record.timestamp_ms, record.offset) for record in log.records]
    # Markers have a time too, and these have kept their records.
    times = sorted([*times, *((1_000 + offset, offset) for offset in (37, 56, 59))])

    async def scenario(broker: Broker, device: MemoryDevice) -> None:
        await stored(broker, log)
        for timestamp_ms in range(1_000, 1_069):
            expected = next(each for each in times if each[0] >= timestamp_ms)
            assert await list_offset(broker, timestamp_ms) == expected
        # The emptied batch at the end tells a later time, at which there is no record.
        for timestamp_ms in (1_069, 1_075, 1_079):
            assert await list_offset(broker, timestamp_ms) == (-1, -1)
        assert await list_offset(broker, YOUNGEST) == (1_068, 68)

    with_broker(scenario)


def by_log(batch: bytes) -> bytes:
    header = read(batch)
    return sealed(header.replaced(attributes=header.attributes | LOG_APPEND_TIME), batch[61:])


def test_a_batch_without_records_has_none_at_the_time_of_the_log_either() -> None:
    def timed(base_offset: int, timestamp_ms: int) -> bytes:
        records: Sequence[Record] = [Record(b"a", b"b", timestamp_ms)]
        return by_log(encode_batch(records, base_offset=base_offset, leader_epoch=0))

    async def scenario(broker: Broker, device: MemoryDevice) -> None:
        batches = [emptied(timed(3, 10)), timed(7, 20), emptied(timed(9, 30))]
        store(broker, PLACE, batches, ())
        await broker.lanes.controller.until_durable()
        assert await list_offset(broker, 5) == (20, 7)
        assert await list_offset(broker, 25) == (-1, -1)
        assert await list_offset(broker, YOUNGEST) == (20, 7)

    with_broker(scenario)


@pytest.mark.parametrize("log_start", [1, 5, 10])
def test_what_is_kept_is_as_old_as_it_is_though_something_younger_was_before_it(
    log_start: int,
) -> None:
    async def scenario(broker: Broker, device: MemoryDevice) -> None:
        times = {0: 1_000, 10: 5, 12: 7, 20: 900}
        batches = [
            encode_batch([Record(b"a", b"b", time_ms)], base_offset=offset, leader_epoch=0)
            for offset, time_ms in times.items()
        ]
        store(broker, PLACE, batches, ())
        await broker.lanes.controller.until_durable()
        await delete_before(broker, log_start)
        log, partition = broker.lanes.controller.log, broker.lanes.controller.view.partition(*PLACE)
        for youngest_gone_ms, expected in ((4, 10), (6, 12), (800, 20), (950, 21)):
            found = await log.first_kept(partition, youngest_gone_ms, None)
            assert found == expected
        assert await list_offset(broker, YOUNGEST) == (900, 20)
        assert await list_offset(broker, 6) == (7, 12)

    with_broker(scenario)
