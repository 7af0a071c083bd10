"""One fetch of many partitions: their batches are read together, and fail apart."""

import asyncio
from typing import Any

import pytest

from broker.watched_device import WatchedDevice, with_topic
from semel.broker.answer import Answer, Call
from semel.broker.broker import Broker
from semel.broker.dispatch import route
from semel.errors import NONE, StorageError
from semel.records.records import Record, decode_batch, encode_batch
from semel.types import TopicPartition
from semel.wire.apis import BY_KEY
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from support.handled import Peer, call
from support.raw_client import produce_request

PARTITION_COUNT = 10
PRODUCE = 0
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


async def write_all(broker: Broker) -> dict[int, list[bytes]]:
    """Some batches to each partition in turn; gives their values."""
    for turn in range(ROUNDS):
        for index in range(PARTITION_COUNT):
            batch = encode_batch([Record(None, f"{index}-{turn}".encode(), 1_000)])
            await call(broker, "produce", 9, produce_request("t", batch, partition=index))
    return {
        index: [f"{index}-{turn}".encode() for turn in range(ROUNDS)]
        for index in range(PARTITION_COUNT)
    }


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_batches_that_lie_together_are_read_at_once_and_a_broken_one_fails_alone(
    isolation_level: int,
) -> None:
    async def scenario(broker: Broker, device: WatchedDevice) -> None:
        expected = await write_all(broker)
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


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_it_is_so_too_when_its_segment_was_just_sealed_and_published(isolation_level: int) -> None:
    """What finds it is still in memory, too."""

    async def scenario(broker: Broker, device: WatchedDevice) -> None:
        journal = broker.journals[0]
        offset = 0

        async def write(index: int, value: bytes) -> int:
            batch = encode_batch([Record(None, value, 1_000)])
            answer = await call(broker, "produce", 9, produce_request("t", batch, partition=index))
            (written,) = answer.responses[0].partition_responses
            assert written.error_code == NONE
            return int(written.base_offset)

        for segment_count in range(2, 9):
            value = b"the last of segment %d" % segment_count
            while len(journal.segments.bases) < segment_count:
                # There may be room behind it for one that is smaller.
                offset = await write(0, value)
                await write(1, b"x" * 19_000)
            await journal.checkpoint_now()
            assert not journal.index.unpublished()
            device.reads = 0
            device.is_cold = True
            wanted = FetchPartition(0, -1, offset, -1, -1, 2**20)
            request = FetchRequest(
                None, -1, 0, 1, 2**20, isolation_level, topics=[FetchTopic("t", [wanted])]
            )
            found = fetched(await call(broker, "fetch", 11, request))
            assert values(found[0]) == [value]
            assert device.reads == 0
            device.is_cold = False

    with_topic(2, scenario, tail_bytes=2**19)


def test_what_is_on_the_disk_alone_is_waited_for_while_others_are_served() -> None:
    async def scenario(broker: Broker, device: WatchedDevice) -> None:
        expected = await write_all(broker)
        device.is_cold = True
        read = asyncio.create_task(call(broker, "fetch", 11, fetch_of_all(0)))
        await asyncio.sleep(0)
        batch = encode_batch([Record(None, b"meanwhile", 1_000)])
        handled = route(PRODUCE).handler(
            broker,
            produce_request("t", batch, acks=1),
            Call(BY_KEY[PRODUCE], 9, 1, None, Peer()),
        )
        assert isinstance(handled, Answer)
        assert not read.done()
        found = fetched(await read)
        assert {index: values(data) for index, data in found.items()} == expected

    with_topic(PARTITION_COUNT, scenario)


def test_a_cold_batch_that_is_broken_fails_alone() -> None:
    async def scenario(broker: Broker, device: WatchedDevice) -> None:
        expected = await write_all(broker)
        device.is_cold = True
        device.break_at(broker, TopicPartition("t", 4), offset=1)
        found = fetched(await call(broker, "fetch", 11, fetch_of_all(0)))
        assert found.pop(4).error_code == StorageError.code
        del expected[4]
        assert {index: values(data) for index, data in found.items()} == expected

    with_topic(PARTITION_COUNT, scenario)
