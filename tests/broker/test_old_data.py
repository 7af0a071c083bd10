"""Reading what lies in old segments: their index files are read beside the loop, and rightly."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import pytest

from broker.handled_producer import HandledProducer
from semel.broker.broker import Broker
from semel.errors import NONE, StorageError
from semel.journal import names
from semel.journal.file.device import DoneReading
from semel.journal.file.memory import MemoryDevice
from semel.lane.partition_log import BACKFILL_BYTES, BACKFILL_PAUSE_S, CALM_AFTER
from semel.log.transactions import Aborted, AbortedIndex
from semel.records.records import Record, decode_batch, encode_batch
from semel.types import Offset, ProducerId
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
from support.handled import CONFIG, call, opened, started
from support.inside import journal_of, partitions_of, state_of
from support.raw_client import produce_request
from support.seeded_loop import run

OTHER_SIZE = 19_000
ROUNDS = 400
"""Enough to fill some segments."""


class ColdDisk(MemoryDevice):
    """While it is watched, all has to be waited for, and to wait on the loop is a failure."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.is_apart = True
        self.names_read: set[str] = set()

    @contextmanager
    def watched(self) -> Iterator[None]:
        self.is_cold, self.is_apart = True, False
        self.names_read.clear()
        try:
            yield
        finally:
            self.is_cold, self.is_apart = False, True

    def read(self, name: str, offset: int, size: int) -> bytes:
        assert self.is_apart, f"{name} is read on the loop"
        self.names_read.add(name)
        return super().read(name, offset, size)

    def size(self, name: str) -> int:
        assert self.is_apart, f"{name} is looked at on the loop"
        return super().size(name)

    def submit_read(self, name: str, offset: int, size: int, on_done: DoneReading) -> None:
        def done(found: bytes | Exception) -> None:
            self.is_apart = not self.is_cold
            on_done(found)

        def land() -> None:
            self.is_apart = True
            try:
                found: bytes | Exception = self.read(name, offset, size)
            except OSError as error:
                found = error
            done(found)

        self._later(land)


class Written(NamedTuple):
    """The oracle: what partition 0 of `t` holds, by offset."""

    values: list[bytes | None]
    """None where a marker stands."""
    aborted: list[tuple[int, int, int]]
    """First offset, marker offset and producer id."""
    sparse: list[bytes]
    """Partition 1, which is written seldom."""


async def write(broker: Broker, value: bytes, partition: int, timestamp_ms: int) -> int:
    batch = encode_batch([Record(None, value, timestamp_ms)])
    answer = await call(broker, "produce", 9, produce_request("t", batch, partition=partition))
    (written,) = answer.responses[0].partition_responses
    assert written.error_code == NONE
    return int(written.base_offset)


async def fill(broker: Broker) -> Written:
    rng = Random(5)
    written = Written([], [], [])
    producers = [HandledProducer(broker, f"p{number}") for number in range(3)]
    first_offsets: dict[HandledProducer, int] = {}
    for producer in producers:
        assert await producer.init() == NONE
    await call(broker, "create_topics", 5, CreateTopicsRequest([CreatableTopic("t", 3, 1)]))
    for number in range(ROUNDS):
        value = b"%d" % number
        assert await write(broker, value, 0, 1_000 + number) == len(written.values)
        written.values.append(value)
        if number % 100 == 7:
            await write(broker, value, 1, 1_000 + number)
            written.sparse.append(value)
        producer = rng.choice(producers)
        if producer in first_offsets and rng.random() < 0.3:
            commit = rng.random() < 0.3
            assert await producer.end(commit=commit) == NONE
            first = first_offsets.pop(producer)
            if not commit:
                written.aborted.append((first, len(written.values), producer.producer_id))
            written.values.append(None)
        elif rng.random() < 0.5:
            found = await producer.produce("t", value)
            assert found.error_code == NONE
            first_offsets.setdefault(producer, found.base_offset)
            written.values.append(value)
        await write(broker, bytes(OTHER_SIZE), 2, 1)
    for producer in list(first_offsets):
        assert await producer.end(commit=True) == NONE
        written.values.append(None)
    return written


Scenario = Callable[[Broker, ColdDisk, Written], Awaitable[None]]


def with_old_data(scenario: Scenario, *, restarts: bool = True) -> None:
    config = replace(CONFIG, journal_tail_bytes=0, transaction_state_log_num_partitions=1)

    async def main() -> None:
        device = ColdDisk()
        async with started(opened(device, Random(1), config)) as broker:
            written = await fill(broker)
            if not restarts:
                await scenario(broker, device, written)
                return
        device.kill()
        async with started(opened(device, Random(2), config)) as broker:
            await scenario(broker, device, written)

    run(Random(1), main())


def wanted(partition: int, offset: int) -> FetchPartition:
    return FetchPartition(partition, -1, offset, -1, -1, 2**20)


async def fetch(
    broker: Broker, *partitions: FetchPartition, isolation: int = 0, size_max: int = 2**20
) -> list[PartitionData]:
    topics = [FetchTopic("t", [*partitions])]
    request = FetchRequest(None, -1, 0, 1, size_max, isolation, topics=topics)
    (topic,) = (await call(broker, "fetch", 11, request)).responses
    return list(topic.partitions)


def records_of(data: PartitionData) -> list[Any]:
    assert data.error_code == NONE
    assert isinstance(data.records, list)
    return [record for batch in data.records for record in decode_batch(bytes(batch))]


@pytest.mark.parametrize("restarts", [False, True])
def test_all_of_it_is_found_without_waiting_on_the_loop(restarts: bool) -> None:
    async def scenario(broker: Broker, device: ColdDisk, written: Written) -> None:
        with device.watched():
            offset = 0
            found: list[bytes | None] = []
            while offset < len(written.values):
                (data,) = await fetch(broker, wanted(0, offset), isolation=1)
                for record in records_of(data):
                    is_marker = written.values[record.offset] is None
                    found.append(None if is_marker else record.value)
                offset = len(found)
            assert found == written.values
            both = await fetch(broker, wanted(1, 0), wanted(0, 50))
            assert [record.value for record in records_of(both[0])] == written.sparse
            assert records_of(both[1])[0].value == written.values[50]
        assert any(name.endswith(names.INDEX) for name in device.names_read)

    with_old_data(scenario, restarts=restarts)


@pytest.mark.parametrize("restarts", [False, True])
def test_what_was_aborted_is_told_wherever_its_marker_lies(restarts: bool) -> None:
    async def scenario(broker: Broker, device: ColdDisk, written: Written) -> None:
        rng = Random(3)
        assert len(written.aborted) > 20
        for start in sorted(rng.sample(range(len(written.values)), 60)):
            with device.watched():
                (data,) = await fetch(broker, wanted(0, start), isolation=1, size_max=2_000)
            end = records_of(data)[-1].offset + 1
            expected = sorted(
                (first, producer_id)
                for first, marker, producer_id in written.aborted
                if first < end and marker >= start
            )
            told = [
                (each.first_offset, each.producer_id) for each in data.aborted_transactions or ()
            ]
            assert told == expected

    with_old_data(scenario, restarts=restarts)


def test_times_are_found_without_waiting_on_the_loop() -> None:
    async def scenario(broker: Broker, device: ColdDisk, written: Written) -> None:
        for number in (0, 7, 57, 200, 307):
            asked = [ListOffsetsPartition(1, -1, 1_000 + number)]
            request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", asked)])
            with device.watched():
                (topic,) = (await call(broker, "list_offsets", 7, request)).topics
            (found,) = topic.partitions
            later = [int(value) >= number for value in written.sparse]
            assert found.offset == later.index(True)

    with_old_data(scenario)


def test_records_that_are_deleted_leave_nothing_to_be_told() -> None:
    async def scenario(broker: Broker, device: ColdDisk, written: Written) -> None:
        first, marker, producer_id = written.aborted[3]
        deleted = DeleteRecordsTopic("t", [DeleteRecordsPartition(0, marker)])
        await call(broker, "delete_records", 2, DeleteRecordsRequest([deleted]))
        (data,) = await fetch(broker, wanted(0, marker), isolation=1, size_max=1)
        assert (first, producer_id) in [
            (each.first_offset, each.producer_id) for each in data.aborted_transactions or ()
        ]
        deleted = DeleteRecordsTopic("t", [DeleteRecordsPartition(0, marker + 1)])
        await call(broker, "delete_records", 2, DeleteRecordsRequest([deleted]))
        (data,) = await fetch(broker, wanted(0, marker + 1), isolation=1, size_max=1)
        assert (first, producer_id) not in [
            (each.first_offset, each.producer_id) for each in data.aborted_transactions or ()
        ]

    with_old_data(scenario)


def test_an_index_that_is_damaged_refuses_who_needs_it_and_no_one_else() -> None:
    async def scenario(broker: Broker, device: ColdDisk, written: Written) -> None:
        device.flip_bit(names.index(0), device.size(names.index(0)) - 1)
        end = partitions_of(state_of(broker), "t")[0].high_watermark
        newest = end - 1
        with device.watched():
            old, new = await fetch(broker, wanted(0, 0), wanted(1, 3))
            assert old.error_code == StorageError.code
            assert [record.value for record in records_of(new)] == written.sparse[3:]
            (data,) = await fetch(broker, wanted(0, newest))
            assert records_of(data)[0].offset <= newest

    with_old_data(scenario)


def test_what_an_older_checkpoint_has_brought_is_told_and_carried_on() -> None:
    """No index file has it: checkpoints held what was aborted."""
    older = Aborted(ProducerId(99), Offset(3), Offset(40), Offset(41))
    config = replace(CONFIG, journal_tail_bytes=0, transaction_state_log_num_partitions=1)

    async def told(broker: Broker, start: int) -> list[tuple[int, int]]:
        (data,) = await fetch(broker, wanted(0, start), isolation=1, size_max=1)
        aborted = data.aborted_transactions or ()
        return [(each.first_offset, each.producer_id) for each in aborted]

    async def main() -> None:
        device = ColdDisk()
        async with started(opened(device, Random(1), config)) as broker:
            written = await fill(broker)
            brought = AbortedIndex()
            brought.add(older)
            partitions_of(state_of(broker), "t")[0].transactions.aborted_before = brought
            await journal_of(broker).checkpoint_now()
        device.kill()
        async with started(opened(device, Random(2), config)) as broker:
            for start in (20, 40, 41):
                of_files = [
                    (first, producer_id)
                    for first, marker, producer_id in written.aborted
                    if first <= start <= marker
                ]
                of_older = [(3, 99)] if start <= 40 else []
                assert await told(broker, start) == sorted([*of_files, *of_older])

    run(Random(1), main())


def size_of(data: PartitionData) -> int:
    assert isinstance(data.records, list)
    return sum(len(batch) for batch in data.records)


async def fetch_large(broker: Broker) -> PartitionData:
    """From a client that would rather wait than get less than half of it."""
    (found,) = await fetch_several(broker, wanted(2, 0))
    return found


async def fetch_several(broker: Broker, *partitions: FetchPartition) -> list[PartitionData]:
    asked = [FetchTopic("t", [*partitions])]
    request = FetchRequest(None, -1, 60_000, 2**19, 2**20, 0, topics=asked)
    (topic,) = (await call(broker, "fetch", 11, request)).responses
    found: list[PartitionData] = topic.partitions
    return found


def test_beside_producers_a_small_answer_is_for_all_partitions_together() -> None:
    async def scenario(broker: Broker, device: ColdDisk, written: Written) -> None:
        await fetch_large(broker)
        await write(broker, b"one more", 0, 1)
        for first, second in ((2, 0), (0, 2)):
            found = await fetch_several(broker, wanted(first, 0), wanted(second, 0))
            sizes = [size_of(each) if each.records else 0 for each in found]
            assert sizes[0] > 0
            assert sum(sizes) <= BACKFILL_BYTES

    with_old_data(scenario)


def test_beside_producers_old_data_is_given_in_small_answers_until_they_rest() -> None:
    async def scenario(broker: Broker, device: ColdDisk, written: Written) -> None:
        loop = asyncio.get_running_loop()
        assert size_of(await fetch_large(broker)) > 2**19
        await write(broker, b"one more", 0, 1)
        begun = loop.time()
        for _ in range(CALM_AFTER):
            assert OTHER_SIZE <= size_of(await fetch_large(broker)) <= BACKFILL_BYTES
        passed_s = loop.time() - begun
        assert passed_s < 60, "a small answer waits for no more to come"
        assert passed_s >= (CALM_AFTER - 2) * BACKFILL_PAUSE_S, "producers have pauses"
        assert size_of(await fetch_large(broker)) > 2**19

    with_old_data(scenario)


def test_what_is_in_memory_is_given_in_large_answers_beside_producers_too() -> None:
    async def main() -> None:
        config = replace(CONFIG, journal_tail_bytes=2**23)
        async with started(opened(ColdDisk(), Random(1), config)) as broker:
            await call(broker, "create_topics", 5, CreateTopicsRequest([CreatableTopic("t", 3, 1)]))
            for _ in range(40):
                await write(broker, bytes(OTHER_SIZE), 2, 1)
            assert size_of(await fetch_large(broker)) > 2**19

    run(Random(1), main())
