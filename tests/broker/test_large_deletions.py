"""A topic or a group whose end takes more than a segment of the journal is deleted all the same."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from broker.handled_producer import HandledProducer
from semel.broker.broker import Broker
from semel.groups.commands import FetchOffsets
from semel.groups.settings import STRING_BYTES_MAX
from semel.records import batch as record_batch
from semel.types import OFFSETS_TOPIC, GroupId
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_groups import DeleteGroupsRequest
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from support import handled
from support.handled import Machine, call, on_a
from support.inside import journal_of, partitions_of, state_of
from support.journal_world import stored_batches
from support.kafka_codes import NONE
from support.seeded_loop import elapse

INVALID_COMMIT_OFFSET_SIZE = 28
CONFIG = replace(handled.CONFIG, offsets_retention_minutes=1)
GROUP = GroupId("g" * 30_000)
PARTITION_COUNT = 100
"""The tombstones of their offsets take 3 MB, a segment has 2."""
BATCH_SIZE_MAX = 2**20 + STRING_BYTES_MAX + 1_000

Deletion = Callable[[Broker], Awaitable[int]]


async def prepare(broker: Broker) -> None:
    topics = CreateTopicsRequest([CreatableTopic("t", PARTITION_COUNT, 1)])
    await call(broker, "create_topics", 7, topics)
    for start in range(0, PARTITION_COUNT, 10):
        assert await commit(broker, range(start, start + 10)) == {NONE}


async def commit(broker: Broker, partitions: range) -> set[int]:
    wanted = [OffsetCommitRequestPartition(index, 5) for index in partitions]
    topics = [OffsetCommitRequestTopic("t", wanted)]
    request = OffsetCommitRequest(GROUP, -1, "", None, topics=topics)
    answer = await call(broker, "offset_commit", 8, request)
    return {each.error_code for topic in answer.topics for each in topic.partitions}


def offset_count(broker: Broker) -> int:
    fetched = state_of(broker).groups.fetch_offsets(FetchOffsets(GROUP, None))
    return sum(each.offset >= 0 for each in fetched)


async def delete_topic(broker: Broker) -> int:
    request = DeleteTopicsRequest([DeleteTopicState("t")])
    (deleted,) = (await call(broker, "delete_topics", 6, request)).responses
    return int(deleted.error_code)


async def delete_group(broker: Broker) -> int:
    (deleted,) = (await call(broker, "delete_groups", 2, DeleteGroupsRequest([GROUP]))).results
    return int(deleted.error_code)


async def delete_offsets(broker: Broker) -> int:
    wanted = [OffsetDeleteRequestPartition(index) for index in range(PARTITION_COUNT)]
    request = OffsetDeleteRequest(GROUP, [OffsetDeleteRequestTopic("t", wanted)])
    answer = await call(broker, "offset_delete", 0, request)
    codes = {each.error_code for topic in answer.topics for each in topic.partitions}
    return int(max(codes, default=answer.error_code))


async def wait_for_expiry(broker: Broker) -> int:
    await elapse(20 * 60)
    return NONE


@pytest.mark.parametrize("delete", [delete_topic, delete_group, delete_offsets, wait_for_expiry])
@on_a(Machine, CONFIG)
async def test_its_offsets_are_gone_for_this_process_and_the_next(
    machine: Machine, delete: Deletion
) -> None:
    async with machine.broker() as broker:
        await prepare(broker)
        assert offset_count(broker) == PARTITION_COUNT
        assert await delete(broker) == NONE
        assert offset_count(broker) == 0
        assert state_of(broker).groups.describe(GROUP) is None
    for crash in (machine.device.kill, machine.device.power_loss):
        crash()
        async with machine.broker() as broker:
            assert offset_count(broker) == 0
            assert ("t" in state_of(broker).catalogue) == (delete is not delete_topic)


@on_a(Machine, CONFIG)
async def test_readers_of_the_internal_topic_need_not_take_it_all_at_once(machine: Machine) -> None:
    async with machine.broker() as broker:
        await prepare(broker)
        assert await delete_group(broker) == NONE
        await broker.lanes.controller.until_durable()
        sizes, record_count = [], 0
        for partition in partitions_of(state_of(broker), OFFSETS_TOPIC):
            end = partition.log_end_offset
            for batch in stored_batches(journal_of(broker), partition.number, 0, end):
                sizes.append(len(batch))
                record_count += record_batch.read(batch).record_count
        assert record_count == 2 * PARTITION_COUNT
        assert max(sizes) <= BATCH_SIZE_MAX


@on_a(Machine, CONFIG)
async def test_a_topic_goes_with_what_wide_transactions_know_of_it(machine: Machine) -> None:
    async with machine.broker() as broker:
        await prepare(broker)
        kept = CreateTopicsRequest([CreatableTopic("kept", 2_000, 1)])
        await call(broker, "create_topics", 7, kept)
        producers = [HandledProducer(broker, f"a-{number}") for number in range(20)]
        for producer in producers:
            assert await producer.init() == NONE
            assert await producer.add("kept", range(2_000)) == {NONE}
            assert await producer.add("t", range(PARTITION_COUNT)) == {NONE}
        assert await delete_topic(broker) == NONE
        for producer in producers:
            assert await producer.end(commit=True) == NONE
    machine.device.power_loss()
    async with machine.broker() as broker:
        ends = {each.log_end_offset for each in partitions_of(state_of(broker), "kept")}
        assert ends == {len(producers)}


@on_a(Machine, CONFIG)
async def test_offsets_that_no_frame_could_hold_are_refused_for_good(machine: Machine) -> None:
    async with machine.broker() as broker:
        await prepare(broker)
        end = journal_of(broker).end
        assert await commit(broker, range(PARTITION_COUNT)) == {INVALID_COMMIT_OFFSET_SIZE}
        producer = HandledProducer(broker, "a")
        await producer.init()
        offsets = {("t", index): 1 for index in range(PARTITION_COUNT)}
        codes = await producer.commit_offsets(GROUP, offsets)
        assert codes == {INVALID_COMMIT_OFFSET_SIZE}
        assert journal_of(broker).end < end + 1_000
