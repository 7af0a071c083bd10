"""What a process has lived through is what the next one recovers, from frames or a checkpoint."""

import asyncio
from random import Random
from typing import NamedTuple

import msgspec
import pytest

from semel.broker.broker import Broker
from semel.errors import CorruptJournal
from semel.groups.coordinator import Groups
from semel.groups.settings import GroupSettings
from semel.journal.file.memory import MemoryDevice
from semel.lane import restoring
from semel.lane.state import LaneState
from semel.records.records import Record, encode_batch
from semel.transactions.store import Transactions
from semel.types import TopicPartition
from semel.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from semel.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from semel.wire.messages.delete_groups import DeleteGroupsRequest
from semel.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from support.handled import call, opened, started
from support.inside import journal_of, partitions_of, state_of
from support.journal_world import stored_batches
from support.lane_state import whole
from support.raw_client import produce_request
from support.seeded_loop import run

TOPICS = ("a", "b", "c")
STEPS = 250


class Workload:
    """Random requests of every kind that writes to the journal."""

    def __init__(self, broker: Broker, rng: Random) -> None:
        self._broker = broker
        self._rng = rng
        self._sequences: dict[tuple[str, int, int], int] = {}

    async def step(self) -> None:
        kinds = [self.produce] * 12 + [
            self.create_topic,
            self.create_topic,
            self.add_partitions,
            self.configure,
            self.delete_topic,
            self.delete_records,
            self.take_producer_id,
            self.commit,
            self.commit,
            self.join_and_sync,
            self.delete_group,
        ]
        await self._rng.choice(kinds)()

    async def produce(self) -> None:
        rng = self._rng
        topic, partition, producer_id = rng.choice(TOPICS), rng.randrange(3), rng.randrange(-1, 4)
        records = [
            Record(b"k", rng.randbytes(rng.randrange(200))) for _ in range(rng.randint(1, 4))
        ]
        key = topic, partition, producer_id
        sequence = self._sequences.get(key, 0)
        if producer_id < 0:
            batch = encode_batch(records)
        else:
            batch = encode_batch(
                records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence
            )
        for _ in range(rng.choice((1, 1, 2))):
            request = produce_request(
                topic, batch, acks=rng.choice((-1, 1, 1)), partition=partition
            )
            answer = await call(self._broker, "produce", 9, request)
            code = answer.responses[0].partition_responses[0].error_code
            if code == 0:
                self._sequences[key] = sequence + len(records)

    async def create_topic(self) -> None:
        rng = self._rng
        configs = []
        if rng.random() < 0.5:
            configs.append(CreatableTopicConfig("message.timestamp.type", "LogAppendTime"))
        name = rng.choice(TOPICS)
        topic = CreatableTopic(name, rng.randint(1, 3), 1, configs=configs)
        await call(self._broker, "create_topics", 7, CreateTopicsRequest([topic]))

    async def add_partitions(self) -> None:
        wanted = CreatePartitionsTopic(self._rng.choice(TOPICS), self._rng.randint(1, 4), None)
        await call(self._broker, "create_partitions", 3, CreatePartitionsRequest([wanted]))

    async def configure(self) -> None:
        entry = AlterableConfig("retention.ms", 0, str(self._rng.randrange(1000)))
        resource = AlterConfigsResource(2, self._rng.choice(TOPICS), [entry])
        request = IncrementalAlterConfigsRequest([resource])
        await call(self._broker, "incremental_alter_configs", 1, request)

    async def delete_topic(self) -> None:
        name = self._rng.choice(TOPICS)
        self._sequences = {key: at for key, at in self._sequences.items() if key[0] != name}
        request = DeleteTopicsRequest([DeleteTopicState(name)])
        await call(self._broker, "delete_topics", 6, request)

    async def delete_records(self) -> None:
        partition = DeleteRecordsPartition(0, self._rng.choice((-1, 1, 5)))
        topic = DeleteRecordsTopic(self._rng.choice(TOPICS), [partition])
        await call(self._broker, "delete_records", 2, DeleteRecordsRequest([topic]))

    async def take_producer_id(self) -> None:
        await call(self._broker, "init_producer_id", 4, InitProducerIdRequest())

    async def commit(self) -> None:
        offset = OffsetCommitRequestPartition(
            self._rng.randrange(2),
            committed_offset=self._rng.randrange(50),
            committed_metadata="noted",
        )
        topic = OffsetCommitRequestTopic(self._rng.choice(TOPICS), partitions=[offset])
        group = self._rng.choice(("g", "h"))
        request = OffsetCommitRequest(group, -1, "", None, topics=[topic])
        await call(self._broker, "offset_commit", 8, request)

    async def join_and_sync(self) -> None:
        group = self._rng.choice(("m", "n"))
        protocols = [JoinGroupRequestProtocol("range", self._rng.randbytes(5))]
        join = JoinGroupRequest(group, 100, 100, "", None, "consumer", protocols)
        joined = await call(self._broker, "join_group", 3, join)
        if joined.error_code == 0:
            assignment = SyncGroupRequestAssignment(joined.member_id, b"share")
            sync = SyncGroupRequest(
                group, joined.generation_id, joined.member_id, None, assignments=[assignment]
            )
            await call(self._broker, "sync_group", 3, sync)

    async def delete_group(self) -> None:
        group = self._rng.choice(("g", "h", "m"))
        await call(self._broker, "delete_groups", 2, DeleteGroupsRequest([group]))


class Left(NamedTuple):
    """What a process has, or leaves behind."""

    state: bytes
    contents: dict[TopicPartition, bytes]


def left_by(broker: Broker) -> Left:
    contents = {
        partition.topic_partition: b"".join(
            stored_batches(
                journal_of(broker),
                partition.number,
                partition.log_start_offset,
                partition.high_watermark,
            )
        )
        for partition in state_of(broker).partitions.values()
        if partition.log_end_offset > 0
    }
    return Left(whole(state_of(broker)), contents)


async def live(device: MemoryDevice, rng: Random, steps: int, checkpoint_at: int = -1) -> Left:
    """Open, work, die, when all of it was written."""
    broker = opened(device, rng)
    async with started(broker):
        workload = Workload(broker, rng)
        for step in range(steps):
            async with asyncio.timeout(60):
                await workload.step()
            if step == checkpoint_at:
                await journal_of(broker).checkpoint_now()
        await broker.lanes.controller.until_durable()
        left = left_by(broker)
    device.kill()
    return left


@pytest.mark.parametrize("seed", range(12))
def test_the_next_process_recovers_what_the_last_one_had(seed: int) -> None:
    rng = Random(f"recovery {seed}")

    async def scenario() -> None:
        device = MemoryDevice(Random(f"device {seed}"))
        for _ in range(3):
            left = await live(device, rng, STEPS // 3, checkpoint_at=rng.randrange(STEPS))
            recovered = opened(device, rng)
            assert left_by(recovered) == left
            device.kill()

    run(rng, scenario())


@pytest.mark.parametrize("seed", range(6))
def test_a_checkpoint_holds_the_whole_state(seed: int) -> None:
    rng = Random(f"image {seed}")

    async def scenario() -> Left:
        return await live(MemoryDevice(Random(seed)), rng, STEPS)

    taken = run(rng, scenario()).state
    state = empty_state()
    restoring.restore(taken, state)
    assert whole(state) == taken


def empty_state() -> LaneState:
    return LaneState(Groups(GroupSettings()), Transactions())


PRODUCER_3 = [9, 1, 1_000, [[0, 4, 10, 77]], None, [0, 10]]
PARTITION_3 = [5, 2, 15, [[0, 0], [1, 7]], [[[9, 10]], b""], [PRODUCER_3]]
LANE_3: list[object] = [1, None, b"cluster", 6, 10, [["t", b"t" * 16, {}, [PARTITION_3]]], {}, {}]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_checkpoint_of_an_earlier_format_is_read(number: int) -> None:
    times = [[1_500, 1_600], 100] if number == 3 else []
    state = empty_state()
    restoring.restore(msgspec.msgpack.encode([number, *LANE_3, *times]), state)
    assert (state.term, state.cluster_id) == (1, b"cluster")
    assert (state.next_partition_number, state.next_producer_id) == (6, 10)
    (partition,) = partitions_of(state, "t")
    assert (partition.number, partition.log_start_offset, partition.log_end_offset) == (5, 2, 15)
    assert partition.term_starts == [(0, 0), (1, 7)]
    assert partition.transactions.first_open_offset() == 10
    producer = partition.producers[9]
    assert (producer.epoch, producer.active_at_ms, producer.restart) == (1, 1_000, None)
    assert (producer.taken, producer.transaction_start) == (((0, 4, 10, 77),), (0, 10))
    if number == 3:
        assert state.last_moment is not None
        assert (state.last_moment.now_ms, state.last_moment.wall_ms) == (1_500, 1_600)
    else:
        assert state.last_moment is None


def test_a_checkpoint_of_a_later_format_is_not_read() -> None:
    for stored in (msgspec.msgpack.encode([8, *LANE_3]), b"\x08" + bytes(20)):
        with pytest.raises(CorruptJournal, match="format 8"):
            restoring.restore(stored, empty_state())


@pytest.mark.parametrize("damaged", [b"", b"\x00", b"\xc1", b"no snapshot at all"])
def test_a_damaged_checkpoint_is_refused(damaged: bytes) -> None:
    with pytest.raises(CorruptJournal, match="checkpoint"):
        restoring.restore(damaged, empty_state())
