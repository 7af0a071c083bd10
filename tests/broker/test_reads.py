"""One fetch of many partitions: their batches are read together, and fail apart."""

from typing import Any

import pytest

from semel.broker.broker import Broker
from semel.errors import NONE, StorageError
from semel.records.records import Record, decode_batch, encode_batch
from semel.types import TopicPartition
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from support.handled import call
from support.raw_client import produce_request
from support.watched_device import WatchedDevice, with_topic

PARTITION_COUNT = 10
ROUNDS = 3


def fetch_of_all(isolation_level: int) -> FetchRequest:
    # Against the order in which they were written.
    wanted = [FetchPartition(index, -1, 0, -1, -1, 2**20) for index in range(PARTITION_COUNT)]
    topics = [FetchTopic("t", wanted[::-1])]
    return FetchRequest(None, -1, 0, 1, 2**20, isolation_level, topics=topics)


def fetched(response: Any) -> dict[int, PartitionData]:
    (topic,) = response.responses
    return {partition.partition_index: partition for partition in topic.partitions}


def values(data: PartitionData) -> list[bytes | None]:
    assert isinstance(data.records, list)
    return [record.value for batch in data.records for record in decode_batch(bytes(batch))]


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_batches_that_lie_together_are_read_at_once_and_a_broken_one_fails_alone(
    isolation_level: int,
) -> None:
    async def scenario(broker: Broker, device: WatchedDevice) -> None:
        for turn in range(ROUNDS):
            for index in range(PARTITION_COUNT):
                batch = encode_batch([Record(None, f"{index}-{turn}".encode(), 1_000)])
                await call(broker, "produce", 9, produce_request("t", batch, partition=index))
        expected = {
            index: [f"{index}-{turn}".encode() for turn in range(ROUNDS)]
            for index in range(PARTITION_COUNT)
        }
        device.reads = 0
        found = fetched(await call(broker, "fetch", 11, fetch_of_all(isolation_level)))
        assert {index: values(data) for index, data in found.items()} == expected
        assert device.reads == 1
        device.break_at(broker, TopicPartition("t", 4), offset=1)
        found = fetched(await call(broker, "fetch", 11, fetch_of_all(isolation_level)))
        assert found.pop(4).error_code == StorageError.code
        assert {data.error_code for data in found.values()} == {NONE}
        del expected[4]
        assert {index: values(data) for index, data in found.items()} == expected

    with_topic(PARTITION_COUNT, scenario)


def test_what_was_just_written_is_read_without_the_device() -> None:
    async def scenario(broker: Broker, device: WatchedDevice) -> None:
        device.reads = 0
        for turn in range(ROUNDS):
            batch = encode_batch([Record(None, f"{turn}".encode() * 1_000, 1_000)])
            await call(broker, "produce", 9, produce_request("t", batch, partition=turn))
            found = fetched(await call(broker, "fetch", 11, fetch_of_all(0)))
            assert values(found[turn]) == [f"{turn}".encode() * 1_000]
        assert device.reads == 0

    with_topic(PARTITION_COUNT, scenario, tail_bytes=2**20)
