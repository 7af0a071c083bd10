"""ListOffsets by time: what is found in batches that are deleted in part, too large or broken."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from semel.broker.broker import Broker
from semel.errors import NONE, StorageError
from semel.records.compression import Compression
from semel.records.records import Record, encode_batch
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
from support.handled import call
from support.raw_client import produce_request
from support.watched_device import WatchedDevice, with_topic

YOUNGEST = -3
PARTITION_COUNT = 40


async def write(broker: Broker, partition: int, batch: bytes) -> Any:
    answer = await call(broker, "produce", 9, produce_request("t", batch, partition=partition))
    (topic,) = answer.responses
    (written,) = topic.partition_responses
    return written


async def search(broker: Broker, timestamp_ms: int, *partitions: int) -> list[tuple[int, ...]]:
    """Error code, timestamp and offset for each partition."""
    wanted = [ListOffsetsPartition(index, -1, timestamp_ms) for index in partitions]
    request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", wanted)])
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


@pytest.mark.parametrize("timestamp_ms", [500, YOUNGEST])
def test_a_partition_that_cannot_be_read_is_refused_alone(timestamp_ms: int) -> None:
    async def scenario(broker: Broker, device: WatchedDevice) -> None:
        for index in range(2):
            assert (await write(broker, index, of_times([1_000]))).error_code == NONE
        device.break_at(broker, TopicPartition("t", 0), offset=0)
        found = await search(broker, timestamp_ms, 0, 1)
        assert found == [(StorageError.code, -1, -1), (NONE, 1_000, 0)]

    with_topic(PARTITION_COUNT, scenario)


def test_an_old_retry_whose_original_cannot_be_read_may_be_sent_again() -> None:
    async def scenario(broker: Broker, device: WatchedDevice) -> None:
        given = await call(broker, "init_producer_id", 4, InitProducerIdRequest())

        def batch(sequence: int) -> bytes:
            return encode_batch(
                [Record(None, b"", 1_000)],
                producer_id=given.producer_id,
                producer_epoch=given.producer_epoch,
                base_sequence=sequence,
            )

        for sequence in range(10):
            assert (await write(broker, 0, batch(sequence))).error_code == NONE
        device.break_at(broker, TopicPartition("t", 0), offset=0)
        assert (await write(broker, 0, batch(0))).error_code == StorageError.code
        device.broken = None
        written = await write(broker, 0, batch(0))
        assert (written.error_code, written.base_offset) == (NONE, 0)

    with_topic(PARTITION_COUNT, scenario)
