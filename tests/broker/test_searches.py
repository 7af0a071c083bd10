"""Searches through the log, by time and for old retries: what they find, and what they cost."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from broker.watched_device import WatchedDevice, with_topic
from semel.broker.broker import Broker
from semel.errors import NONE, OutOfOrderSequence, StorageError
from semel.lane import searches
from semel.lane.searches import BATCHES_AT_ONCE, RECORDS_AT_ONCE
from semel.records.compression import Compression
from semel.records.records import Record, RecordTimes, encode_batch, unpack
from semel.types import TopicPartition
from semel.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from support.compiled import plain_python
from support.handled import call
from support.raw_client import produce_request
from support.seeded_loop import SeededLoop

YOUNGEST = -3
PARTITION_COUNT = 40


async def write(broker: Broker, partition: int, batch: bytes) -> Any:
    answer = await call(broker, "produce", 9, produce_request("t", batch, partition=partition))
    (topic,) = answer.responses
    (written,) = topic.partition_responses
    return written


async def write_in_transaction(broker: Broker, given: Any) -> None:
    """A record of a later time, in a transaction that stays open."""
    batch = encode_batch(
        [Record(None, b"", 2_000)],
        producer_id=given.producer_id,
        producer_epoch=given.producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )
    data = TopicProduceData("t", [PartitionProduceData(0, batch)])
    answer = await call(broker, "produce", 12, ProduceRequest("a", -1, 30_000, [data]))
    (topic,) = answer.responses
    assert [each.error_code for each in topic.partition_responses] == [NONE]
    await broker.lanes.controller.until_durable()


async def search(
    broker: Broker, timestamp_ms: int, *partitions: int, isolation: int = 0
) -> list[tuple[int, ...]]:
    """Error code, timestamp and offset for each partition."""
    wanted = [ListOffsetsPartition(index, -1, timestamp_ms) for index in partitions]
    request = ListOffsetsRequest(-1, isolation, [ListOffsetsTopic("t", wanted)])
    (topic,) = (await call(broker, "list_offsets", 7, request)).topics
    return [(found.error_code, found.timestamp, found.offset) for found in topic.partitions]


def of_times(timestamps_ms: Sequence[int]) -> bytes:
    return encode_batch([Record(None, b"", timestamp_ms) for timestamp_ms in timestamps_ms])


def test_the_youngest_record_is_found_among_those_that_are_not_deleted() -> None:
    rng = Random(7)

    async def scenario(broker: Broker, device: WatchedDevice) -> None:
        for index in range(PARTITION_COUNT):
            times_ms: list[int] = []
            for _ in range(rng.randint(1, 4)):
                batch = [rng.randint(1, 20) for _ in range(rng.randint(1, 3))]
                times_ms += batch
                assert (await write(broker, index, of_times(batch))).error_code == NONE
            start = rng.randint(0, len(times_ms))
            deleted = DeleteRecordsTopic("t", [DeleteRecordsPartition(index, start)])
            await call(broker, "delete_records", 2, DeleteRecordsRequest([deleted]))
            left = times_ms[start:]
            expected = (NONE, max(left), start + left.index(max(left))) if left else (NONE, -1, -1)
            assert await search(broker, YOUNGEST, index) == [expected]

    with_topic(PARTITION_COUNT, scenario)


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.ZSTD])
def test_a_batch_that_unpacks_to_very_much_is_answered_with_its_first_offset(
    compression: Compression,
) -> None:
    large = Record(None, bytes(9 * 2**20), 2_000)
    batch = encode_batch([Record(None, b"", 1_000), large], compression=compression)

    async def scenario(broker: Broker, device: WatchedDevice) -> None:
        assert (await write(broker, 0, batch)).error_code == NONE
        assert await search(broker, 1_500, 0) == [(NONE, 2_000, 0)]
        assert await search(broker, YOUNGEST, 0) == [(NONE, 2_000, 0)]

    with_topic(PARTITION_COUNT, scenario)


@plain_python
@plain_python
@pytest.mark.parametrize("compression", Compression)
def test_a_compressed_batch_is_unpacked_beside_the_loop(
    compression: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_beside = False
    unpacked: list[bool] = []

    run_beside = SeededLoop.run_in_executor

    def run_watched(loop: SeededLoop, executor: None, work: Callable[[], Any]) -> Any:
        def watched_work() -> Any:
            nonlocal is_beside
            is_beside = True
            try:
                return work()
            finally:
                is_beside = False

        return run_beside(loop, executor, watched_work)

    def watched(*args: Any, **options: Any) -> Any:
        unpacked.append(is_beside)
        return unpack(*args, **options)

    async def scenario(broker: Broker, device: WatchedDevice) -> None:
        times_ms = range(1_000, 1_010)
        records = [Record(None, b"value", timestamp_ms) for timestamp_ms in times_ms]
        await write(broker, 0, encode_batch(records, compression=compression))
        assert await search(broker, 1_005, 0) == [(NONE, 1_005, 5)]

    monkeypatch.setattr(searches, "unpack", watched)
    monkeypatch.setattr(SeededLoop, "run_in_executor", run_watched)
    with_topic(1, scenario)
    assert unpacked == [compression != Compression.NONE]


def test_a_batch_of_many_records_is_looked_through_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Law: no tick of the loop looks at more records, however many search and find late."""
    count = 5 * RECORDS_AT_ONCE + 1
    looked_at: list[int] = []
    few = RecordTimes.few

    def watched(times: RecordTimes, count_max: int) -> list[tuple[int, int]]:
        found = few(times, count_max)
        looked_at.append(len(found))
        return found

    monkeypatch.setattr(RecordTimes, "few", watched)
    batch = encode_batch(
        [Record(None, b"", 1_000 + offset) for offset in range(count)],
        compression=Compression.ZSTD,
    )

    async def scenario(broker: Broker, device: WatchedDevice) -> None:
        assert (await write(broker, 0, batch)).error_code == NONE
        assert (await write(broker, 0, of_times([500]))).error_code == NONE
        most = 0
        async with asyncio.TaskGroup() as tasks:
            wanted = [1_000 + count - 1, 1_000 + RECORDS_AT_ONCE, 7, YOUNGEST] * 5
            searching = [tasks.create_task(search(broker, each, 0)) for each in wanted]
            while not all(task.done() for task in searching):
                before = len(looked_at)
                await asyncio.sleep(0)
                most = max(most, sum(looked_at[before:]))
        last = (NONE, 1_000 + count - 1, count - 1)
        behind = (NONE, 1_000 + RECORDS_AT_ONCE, RECORDS_AT_ONCE)
        expected = [last, behind, (NONE, 1_000, 0), last] * 5
        assert [task.result() for task in searching] == [[each] for each in expected]
        assert most == RECORDS_AT_ONCE
        # The youngest that is left is looked for in what is left of the batch.
        deleted = DeleteRecordsTopic("t", [DeleteRecordsPartition(0, count - 1)])
        await call(broker, "delete_records", 2, DeleteRecordsRequest([deleted]))
        assert await search(broker, YOUNGEST, 0) == [last]

    with_topic(PARTITION_COUNT, scenario)


@pytest.mark.parametrize("timestamp_ms", [500, YOUNGEST])
def test_a_partition_that_cannot_be_read_is_refused_alone(timestamp_ms: int) -> None:
    async def scenario(broker: Broker, device: WatchedDevice) -> None:
        for index in range(2):
            assert (await write(broker, index, of_times([1_000]))).error_code == NONE
        device.break_at(broker, TopicPartition("t", 0), offset=0)
        found = await search(broker, timestamp_ms, 0, 1)
        assert found == [(StorageError.code, -1, -1), (NONE, 1_000, 0)]

    with_topic(PARTITION_COUNT, scenario)


Batch = Callable[[int], bytes]


async def filled(broker: Broker, count: int) -> Batch:
    """Partition 0 has this many batches of one producer; gives them by their sequence."""
    given = await call(broker, "init_producer_id", 4, InitProducerIdRequest())

    def batch(sequence: int) -> bytes:
        return encode_batch(
            [Record(None, b"", 1_000)],
            producer_id=given.producer_id,
            producer_epoch=given.producer_epoch,
            base_sequence=sequence,
        )

    for sequence in range(count):
        assert (await write(broker, 0, batch(sequence))).error_code == NONE
    return batch


def test_an_old_retry_whose_original_cannot_be_read_may_be_sent_again() -> None:
    async def scenario(broker: Broker, device: WatchedDevice) -> None:
        batch = await filled(broker, 10)
        device.break_at(broker, TopicPartition("t", 0), offset=0)
        assert (await write(broker, 0, batch(0))).error_code == StorageError.code
        device.broken = None
        written = await write(broker, 0, batch(0))
        assert (written.error_code, written.base_offset) == (NONE, 0)

    with_topic(PARTITION_COUNT, scenario)


def test_however_many_search_one_tick_of_the_loop_reads_a_few_batches() -> None:
    most = 0

    async def scenario(broker: Broker, device: WatchedDevice) -> None:
        batch = await filled(broker, 400)
        # A younger one that read_committed may not see yet, so that all others are looked at.
        open_one = await call(broker, "init_producer_id", 4, InitProducerIdRequest("a", 60_000))
        await write_in_transaction(broker, open_one)
        asked = [write(broker, 0, batch(sequence)) for sequence in range(30)]
        asked += [search(broker, YOUNGEST, 0, isolation=1) for _ in range(30)]
        nonlocal most
        async with asyncio.TaskGroup() as tasks:
            searching = [tasks.create_task(each) for each in asked]
            while not all(task.done() for task in searching):
                before = device.reads
                await asyncio.sleep(0)
                most = max(most, device.reads - before)
        for sequence, task in enumerate(searching[:30]):
            assert (task.result().error_code, task.result().base_offset) == (NONE, sequence)
        assert [task.result() for task in searching[30:]] == [[(NONE, 1_000, 0)]] * 30

    with_topic(PARTITION_COUNT, scenario)
    # A batch that may be the one is read twice, its header and all of it.
    assert most <= 2 * BATCHES_AT_ONCE


def test_an_old_retry_that_is_repeated_is_searched_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searches, "OLD_RETRY_BATCHES_MAX", 50)

    async def scenario(broker: Broker, device: WatchedDevice) -> None:
        batch = await filled(broker, 100)

        async def retried(sequence: int) -> tuple[int, int, int]:
            """What it was answered, and how many reads that took."""
            before = device.reads
            written = await write(broker, 0, batch(sequence))
            return written.error_code, written.base_offset, device.reads - before

        assert (await retried(70))[:2] == (NONE, 70)
        assert (await retried(10))[:2] == (OutOfOrderSequence.code, -1)
        for _ in range(3):
            assert await retried(70) == (NONE, 70, 0)
            assert await retried(10) == (OutOfOrderSequence.code, -1, 0)
        # What is remembered is the answer to one question: another one is another search.
        assert (await write(broker, 0, batch(100))).error_code == NONE
        assert (await retried(70))[:2] == (NONE, 70)
        for sequence in range(60, 70):
            assert (await retried(sequence))[:2] == (NONE, sequence)

    with_topic(PARTITION_COUNT, scenario)


def test_only_the_latest_answers_to_old_retries_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "ANSWERS_KEPT_MAX", 10)

    async def scenario(broker: Broker, device: WatchedDevice) -> None:
        batch = await filled(broker, 50)
        for sequence in range(40):
            assert (await write(broker, 0, batch(sequence))).base_offset == sequence
        before = device.reads
        for sequence in range(30, 40):
            assert (await write(broker, 0, batch(sequence))).base_offset == sequence
        assert device.reads == before
        assert (await write(broker, 0, batch(0))).base_offset == 0
        assert device.reads > before

    with_topic(PARTITION_COUNT, scenario)


def test_searches_wait_for_what_is_on_the_disk_alone() -> None:
    async def scenario(broker: Broker, device: WatchedDevice) -> None:
        given = await call(broker, "init_producer_id", 4, InitProducerIdRequest())
        batches = [
            encode_batch(
                [Record(None, b"", 1_000 + sequence)],
                producer_id=given.producer_id,
                producer_epoch=given.producer_epoch,
                base_sequence=sequence,
            )
            for sequence in range(10)
        ]
        for batch in batches:
            assert (await write(broker, 0, batch)).error_code == NONE
        device.is_cold = True
        written = await write(broker, 0, batches[2])
        assert (written.error_code, written.base_offset) == (NONE, 2)
        assert await search(broker, 1_004, 0) == [(NONE, 1_004, 4)]
        assert await search(broker, YOUNGEST, 0) == [(NONE, 1_009, 9)]

    with_topic(PARTITION_COUNT, scenario)
