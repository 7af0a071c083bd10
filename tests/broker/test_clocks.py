"""What ends by time ends when that has passed, whatever the wall clock is set to meanwhile."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from semel.broker.broker import Broker
from semel.errors import NONE, JournalFull, ProducerFenced, UnknownMemberId
from semel.lane import duties, facts, frame
from semel.lane.lane import Lane
from semel.log.partition import Partition
from semel.records.records import Record, encode_batch
from semel.types import GroupId, TransactionalId
from semel.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from semel.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from semel.wire.messages.end_txn import EndTxnRequest
from semel.wire.messages.heartbeat import HeartbeatRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.messages.sync_group import SyncGroupRequest
from support.compiled import plain_python
from support.handled import CONFIG, LoopClock, Machine, call, on_a
from support.inside import journal_of, partitions_of, say, state_of
from support.lane_state import whole
from support.seeded_loop import elapse

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
YEAR_MS = 365 * DAY_MS
JUMPS_MS = (HOUR_MS, -HOUR_MS, 2 * DAY_MS, 50 * YEAR_MS, -50 * YEAR_MS)

EXPIRATION_MS = 60_000
CHECK_MS = 5_000
EXPIRING = replace(
    CONFIG,
    producer_id_expiration_ms=EXPIRATION_MS,
    producer_id_expiration_check_interval_ms=CHECK_MS,
    transactional_id_expiration_ms=EXPIRATION_MS,
    transaction_remove_expired_transaction_cleanup_interval_ms=CHECK_MS,
    offsets_retention_minutes=EXPIRATION_MS // 60_000,
    offsets_retention_check_interval_ms=CHECK_MS,
)

BATCH = encode_batch([Record(None, b"once")], producer_id=900, producer_epoch=0, base_sequence=0)


class World(Machine):
    """A machine with a clock that can be set."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        super().__init__(EXPIRING, self.clock)

    @asynccontextmanager
    async def broker(self) -> AsyncIterator[Broker]:
        """Killed at the end of the block."""
        async with super().broker() as broker:
            yield broker
            await broker.lanes.controller.until_durable()
        self.device.kill()

    def reopened(self) -> Broker:
        """Recovered, and killed before it has done anything."""
        broker = self.opened()
        self.device.kill()
        return broker


# Clients


async def create_topic(broker: Broker, name: str, **config: str) -> None:
    configs = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in config.items()]
    request = CreateTopicsRequest([CreatableTopic(name, 1, 1, configs=configs)])
    (made,) = (await call(broker, "create_topics", 7, request)).topics
    assert made.error_code == NONE


async def join(broker: Broker, group: str, session_ms: int) -> str:
    """The id of the group's only member, in its first generation."""
    protocols = [JoinGroupRequestProtocol("range", b"")]
    request = JoinGroupRequest(group, session_ms, 60_000, "", None, "consumer", protocols)
    joined = await call(broker, "join_group", 3, request)
    syncing = SyncGroupRequest(group, joined.generation_id, joined.member_id)
    assert (await call(broker, "sync_group", 3, syncing)).error_code == NONE
    return str(joined.member_id)


async def beat(broker: Broker, group: str, member: str) -> int:
    answer = await call(broker, "heartbeat", 3, HeartbeatRequest(group, 1, member))
    return int(answer.error_code)


async def produce(broker: Broker, topic: str, batch: bytes, name: str | None = None) -> int:
    """The offset that it has."""
    data = TopicProduceData(topic, [PartitionProduceData(0, batch)])
    answer = await call(broker, "produce", 12, ProduceRequest(name, -1, 30_000, [data]))
    (told,) = answer.responses[0].partition_responses
    assert told.error_code == NONE
    return int(told.base_offset)


async def begin(broker: Broker, name: str, timeout_ms: int) -> EndTxnRequest:
    """A transaction with one record in it, and what would commit it."""
    given = await call(broker, "init_producer_id", 4, InitProducerIdRequest(name, timeout_ms))
    assert given.error_code == NONE
    batch = encode_batch(
        [Record(None, b"whole")],
        producer_id=given.producer_id,
        producer_epoch=given.producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )
    await produce(broker, "t", batch, name)
    return EndTxnRequest(name, given.producer_id, given.producer_epoch, True)


async def end(broker: Broker, commit: EndTxnRequest) -> int:
    return int((await call(broker, "end_txn", 5, commit)).error_code)


async def commit_offset(broker: Broker, group: str) -> None:
    offset = OffsetCommitRequestPartition(0, committed_offset=5, committed_metadata="")
    topics = [OffsetCommitRequestTopic("t", partitions=[offset])]
    request = OffsetCommitRequest(group, -1, "", None, topics=topics)
    (topic,) = (await call(broker, "offset_commit", 8, request)).topics
    assert topic.partitions[0].error_code == NONE


async def leave_traces(broker: Broker) -> None:
    """One of each kind that expires."""
    await create_topic(broker, "t")
    assert await produce(broker, "t", BATCH) == 0
    assert await end(broker, await begin(broker, "id", 60_000)) == NONE
    await commit_offset(broker, "g")


def traces(broker: Broker) -> set[str]:
    state = state_of(broker)
    found = set()
    if partitions_of(state, "t")[0].producers:
        found.add("producers")
    if state.transactions.get(TransactionalId("id")) is not None:
        found.add("transactional id")
    if state.groups.describe(GroupId("g")) is not None:
        found.add("offsets")
    return found


STAMPED = "LogAppendTime"
ALL = {"producers", "transactional id", "offsets"}


# While the broker runs


@pytest.mark.parametrize("jump_ms", JUMPS_MS)
@on_a(World)
async def test_living_members_stay_and_dead_ones_go_in_their_time(
    world: World, jump_ms: int
) -> None:
    async with world.broker() as broker:
        living = await join(broker, "living", 6_000)
        dead = await join(broker, "dead", 6_000)
        world.clock.ahead_ms += jump_ms
        for _ in range(5):
            await elapse(1)
            assert await beat(broker, "living", living) == NONE
        assert state_of(broker).groups.describe(GroupId("dead")) is not None
        world.clock.ahead_ms += jump_ms
        await elapse(1.1)
        assert await beat(broker, "living", living) == NONE
        assert await beat(broker, "dead", dead) == UnknownMemberId.code


@pytest.mark.parametrize("jump_ms", JUMPS_MS)
@on_a(World)
async def test_young_transactions_live_and_old_ones_are_aborted_in_their_time(
    world: World, jump_ms: int
) -> None:
    async with world.broker() as broker:
        await create_topic(broker, "t")
        young = await begin(broker, "young", 10_000)
        old = await begin(broker, "old", 10_000)
        world.clock.ahead_ms += jump_ms
        await elapse(9.9)
        assert await end(broker, young) == NONE
        assert len(state_of(broker).transactions.open()) == 1
        await elapse(0.2)
        assert await end(broker, old) == ProducerFenced.code


@pytest.mark.parametrize("jump_ms", JUMPS_MS)
@on_a(World)
async def test_what_is_idle_is_forgotten_in_its_time(world: World, jump_ms: int) -> None:
    async with world.broker() as broker:
        await leave_traces(broker)
        world.clock.ahead_ms += jump_ms
        await elapse(EXPIRATION_MS / 1000 - 1)
        assert traces(broker) == ALL
        assert await produce(broker, "t", BATCH) == 0
        await elapse(CHECK_MS / 1000 + 2)
        assert traces(broker) == set()


# Over a rest


@on_a(World)
async def test_a_rest_counts_for_as_long_as_the_wall_clock_says(world: World) -> None:
    async with world.broker() as broker:
        await leave_traces(broker)
    world.clock.ahead_ms += EXPIRATION_MS - 2 * CHECK_MS - 1_000
    async with world.broker() as broker:
        await elapse(2 * CHECK_MS / 1000)
        assert traces(broker) == ALL
        await elapse(CHECK_MS / 1000 + 1)
        assert traces(broker) == set()


@on_a(World)
async def test_nothing_is_forgotten_before_those_who_waited_for_the_broker_could_come_back(
    world: World,
) -> None:
    async with world.broker() as broker:
        await leave_traces(broker)
    world.clock.ahead_ms += 50 * YEAR_MS
    async with world.broker() as broker:
        await elapse(CHECK_MS / 1000 - 1)
        assert traces(broker) == ALL
        assert await produce(broker, "t", BATCH) == 0


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, -50 * YEAR_MS])
@on_a(World)
async def test_a_clock_that_went_back_over_a_rest_neither_forgets_early_nor_never(
    world: World, jump_ms: int
) -> None:
    async with world.broker() as broker:
        await leave_traces(broker)
    world.clock.ahead_ms += jump_ms
    async with world.broker() as broker:
        # As a machine does that boots with a wrong clock and is told the time then.
        world.clock.ahead_ms -= jump_ms
        await elapse(EXPIRATION_MS / 1000 - 1)
        assert traces(broker) == ALL
        await elapse(CHECK_MS / 1000 + 2)
        assert traces(broker) == set()


@pytest.mark.parametrize("has_checkpoint", [False, True])
@pytest.mark.parametrize("was_only_looked_at", [False, True])
@on_a(World)
async def test_a_clock_that_was_behind_and_is_right_after_a_rest_counts_the_rest_alone(
    world: World, has_checkpoint: bool, was_only_looked_at: bool
) -> None:
    async with world.broker() as broker:
        if was_only_looked_at:
            # A heartbeat appends nothing, so what the clock shows then binds nobody.
            member = await join(broker, "any", 600_000)
            await elapse(0.1)
            assert await beat(broker, "any", member) == NONE
        world.clock.ahead_ms -= DAY_MS
        await elapse(2 * EXPIRATION_MS / 1000)
        await leave_traces(broker)
        if has_checkpoint:
            await journal_of(broker).checkpoint_now()
    world.clock.ahead_ms += DAY_MS
    async with world.broker() as broker:
        await elapse(EXPIRATION_MS / 1000 - 1)
        assert traces(broker) == ALL
        await elapse(CHECK_MS / 1000 + 2)
        assert traces(broker) == set()


@pytest.mark.parametrize("is_busy", [False, True])
@on_a(World)
async def test_a_jump_that_was_seen_does_not_come_back_as_a_rest(
    world: World, is_busy: bool
) -> None:
    async with world.broker() as broker:
        await leave_traces(broker)
        world.clock.ahead_ms += 2 * DAY_MS
        if is_busy:
            await elapse(0.001)  # The clocks are read once in a millisecond.
            await create_topic(broker, "any")
        else:
            await elapse(1.1)
    async with world.broker() as broker:
        await elapse(EXPIRATION_MS / 1000 - 5)
        assert traces(broker) == ALL
        await elapse(CHECK_MS / 1000 + 5)
        assert traces(broker) == set()


@on_a(World)
async def test_a_jump_seen_on_a_full_disk_does_not_come_back_as_a_rest(world: World) -> None:
    async with world.broker() as broker:
        await leave_traces(broker)
        world.device.is_full = True
        fill(broker.lanes.controller)
        for _ in range(3):
            world.clock.ahead_ms += 2 * DAY_MS
            await elapse(1.1)
    async with world.broker() as broker:
        world.device.is_full = False
        await elapse(2 * CHECK_MS / 1000)
        assert traces(broker) == ALL
        assert await produce(broker, "t", BATCH) == 0


def fill(lane: Lane) -> None:
    """Until there is no room for the smallest frame that adds something."""
    size = lane._journal.limits.payload_bytes_max // 8
    while size:
        try:
            say(lane, facts.TopicConfigured("t", {"any": "." * size}))
        except JournalFull:
            size //= 2


@on_a(World)
async def test_a_clock_that_stands_right_has_nothing_to_be_noted(world: World) -> None:
    async with world.broker() as broker:
        await leave_traces(broker)
        frame_count = journal_of(broker).frames_appended
        await elapse(EXPIRATION_MS / 1000 - 5)
        assert journal_of(broker).frames_appended == frame_count
        world.clock.ahead_ms -= DAY_MS
        await elapse(2)
        assert journal_of(broker).frames_appended == frame_count


@pytest.mark.parametrize("jump_ms", [0, *JUMPS_MS])
@on_a(World)
async def test_timers_start_anew_when_the_broker_opens(world: World, jump_ms: int) -> None:
    async with world.broker() as broker:
        await create_topic(broker, "t")
        member = await join(broker, "g", 6_000)
        commit = await begin(broker, "id", 10_000)
        await elapse(5)
    await elapse(60)
    world.clock.ahead_ms += jump_ms
    async with world.broker() as broker:
        await elapse(5.9)
        assert await beat(broker, "g", member) == NONE
        await elapse(4)
        assert len(state_of(broker).transactions.open()) == 1
        await elapse(0.2)
        assert await end(broker, commit) == ProducerFenced.code


@on_a(World)
async def test_a_replay_at_any_later_time_gives_the_same_state(world: World) -> None:
    async with world.broker() as broker:
        await leave_traces(broker)
        world.clock.ahead_ms += DAY_MS
        await begin(broker, "open", 60_000)
        await elapse(CHECK_MS / 1000 + EXPIRATION_MS / 1000)
        left = whole(state_of(broker))
    for jump_ms in (0, *JUMPS_MS):
        world.clock.ahead_ms += jump_ms
        assert whole(state_of(world.reopened())) == left


# What is shown


def shown_times_ms(broker: Broker) -> Iterator[int]:
    """The times in the frames of the journal, and of every batch in them, in their order."""
    journal = journal_of(broker)
    for position, payload in journal.replay():
        stored = frame.decode(payload, position)
        for entry in stored.batches:
            # What clients of these tests write has no time, unless the broker stamps it.
            if entry.header.max_timestamp_ms >= 0:
                yield entry.header.max_timestamp_ms
        yield stored.at.wall_ms


@on_a(World)
async def test_times_in_records_are_those_of_the_wall_clock_and_never_go_back(world: World) -> None:
    seen_ms = 0
    async with world.broker() as broker:
        await create_topic(broker, "t")
    for number, jump_ms in enumerate((0, HOUR_MS, -3 * HOUR_MS, 2 * HOUR_MS, -YEAR_MS)):
        world.clock.ahead_ms += jump_ms
        async with world.broker() as broker:
            await create_topic(broker, f"stamped-{number}", message_timestamp_type=STAMPED)
            await produce(broker, f"stamped-{number}", BATCH)
            await join(broker, f"group-{number}", 6_000)
            await commit_offset(broker, "g")
            seen_ms = max(seen_ms, world.clock.wall_ms())
            commit = await begin(broker, "id", 60_000)
            value = state_of(broker).transactions.get(TransactionalId("id"))
            assert value is not None
            assert seen_ms <= value.started_at_ms <= max(seen_ms, world.clock.wall_ms())
            assert await end(broker, commit) == NONE
            world.clock.ahead_ms += jump_ms
            await elapse(0.001)  # The clocks are read once in a millisecond.
            seen_ms = max(seen_ms, world.clock.wall_ms())
            await commit_offset(broker, "g")
    times_ms = list(shown_times_ms(world.reopened()))
    assert len(times_ms) > 50
    assert times_ms == sorted(times_ms)


@pytest.mark.parametrize("jump_ms", JUMPS_MS)
@on_a(World)
async def test_a_producer_is_said_to_have_written_as_long_ago_as_it_did(
    world: World, jump_ms: int
) -> None:
    async with world.broker() as broker:
        await create_topic(broker, "t")
        await produce(broker, "t", BATCH)
        world.clock.ahead_ms += jump_ms
        await elapse(3)
        request = DescribeProducersRequest([TopicRequest("t", [0])])
        (topic,) = (await call(broker, "describe_producers", 0, request)).topics
        (producer,) = topic.partitions[0].active_producers
        age_ms = broker.lanes.controller._clock.wall_ms() - producer.last_timestamp
        assert 3_000 <= age_ms < 3_100


# A few at a time


def batch_of(producer_id: int) -> bytes:
    return encode_batch(
        [Record(None, b"once")], producer_id=producer_id, producer_epoch=0, base_sequence=0
    )


@plain_python
@pytest.mark.parametrize("looked_at_max", [1, 3, 1_000])
def test_however_few_are_looked_at_at_once_all_silent_ones_are_forgotten(
    looked_at_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duties, "LOOKED_AT_MAX", looked_at_max)
    forgotten: list[int] = []
    forget = Partition.forget_producers

    def counted(self: Partition, producer_ids: tuple[int, ...]) -> None:
        forgotten.append(len(producer_ids))
        forget(self, producer_ids)

    monkeypatch.setattr(Partition, "forget_producers", counted)

    @on_a(World)
    async def scenario(world: World) -> None:
        async with world.broker() as broker:
            for topic in ("t", "u"):
                await create_topic(broker, topic)
                for producer_id in range(5):
                    await produce(broker, topic, batch_of(producer_id))
            await elapse(EXPIRATION_MS / 1000 + CHECK_MS / 1000 + 30)
            for topic in ("t", "u"):
                assert not partitions_of(state_of(broker), topic)[0].producers

    scenario()
    assert sum(forgotten) == 10
    assert max(forgotten) <= looked_at_max


@on_a(World)
async def test_a_retry_is_not_told_the_time_of_the_retry(world: World) -> None:
    async with world.broker() as broker:
        await create_topic(broker, "t", message_timestamp_type=STAMPED)
        told = []
        for _ in range(2):
            data = TopicProduceData("t", [PartitionProduceData(0, BATCH)])
            answer = await call(broker, "produce", 9, ProduceRequest(None, -1, 30_000, [data]))
            (each,) = answer.responses[0].partition_responses
            told.append((each.base_offset, each.log_append_time_ms))
            await elapse(10)
        assert told[0][1] > 0
        assert told[1] == (0, -1)
