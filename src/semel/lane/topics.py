"""Commands about topics, their records, and settings."""

from collections.abc import Sequence
from typing import NamedTuple

from semel.errors import InvalidConfig, InvalidPartitions, OffsetOutOfRange, TopicAlreadyExists
from semel.groups.commands import UNASKED
from semel.groups.commands import ForgetTopic as ForgetOffsets
from semel.groups.deciding import GroupDecision
from semel.lane import facts
from semel.lane.catalogue import (
    TOPIC_ID_SIZE,
    check_config_size,
    check_partition_count,
)
from semel.lane.commands import Claim, Decided, Environment, internal_topic
from semel.lane.frame import Frame
from semel.lane.group_commands import add_group_batches
from semel.lane.state import LaneState
from semel.lane.transactions import add_transaction
from semel.spelling import noun
from semel.topic_names import check_name
from semel.transactions.commands import ForgetTopic
from semel.transactions.participants import participants
from semel.types import Offset, TopicPartition
from semel.world import Moment


def check_new_topic(topics: LaneState, name: str, partition_count: int) -> None:
    check_name(name)
    if name in topics.catalogue:
        raise TopicAlreadyExists(f"topic {name!r} exists already")
    check_partition_count(partition_count)


class CreateTopic(NamedTuple):
    """Gives the topic's id. Raises InvalidConfig if it is pinned to a lane that is not there."""

    name: str
    partition_count: int
    config: dict[str, str]
    only_check: bool = False
    lane: int | None = None
    """In which all partitions lie; None: they are spread over all."""

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[bytes]:
        check_new_topic(state, self.name, self.partition_count)
        check_config_size(self.config)
        count = max(environment.lane_count, state.lanes.count)
        if self.lane is not None and not 0 <= self.lane < count:
            raise InvalidConfig(
                f"there is no lane {self.lane}: there {noun(count, 'is', 'are')} {count} "
                f"{noun(count, 'lane')}, from 0 on"
            )
        if self.only_check:
            return Decided(bytes(TOPIC_ID_SIZE))
        topic_id = environment.randomness.token_bytes(TOPIC_ID_SIZE)
        frame = Frame(at)
        frame.add_fact(
            facts.TopicCreated(
                self.name,
                topic_id,
                state.next_partition_number,
                self.partition_count,
                self.config,
                0 if self.lane is None else self.lane,
                count if self.lane is None else 1,
            )
        )
        return Decided(topic_id, frame)


class CreateInternalTopic(NamedTuple):
    """The topic of a coordinator, which is made when the first group or transaction needs it."""

    name: str

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        frame = Frame(at)
        creation = internal_topic(state, self.name, environment)
        if creation is not None:
            frame.add_fact(creation)
        return Decided(None, frame)


class GrowTopic(NamedTuple):
    """More partitions; `partition_count` is how many there are then."""

    name: str
    partition_count: int
    only_check: bool = False

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        topic = state.catalogue.named(self.name)
        added = self.partition_count - topic.partition_count
        if added <= 0:
            raise InvalidPartitions(
                f"topic {self.name!r} has {topic.partition_count} "
                f"{noun(topic.partition_count, 'partition')} already; "
                f"there can only be more, not {self.partition_count}"
            )
        check_partition_count(self.partition_count)
        if self.only_check:
            return Decided(None)
        frame = Frame(at)
        frame.add_fact(facts.PartitionsAdded(self.name, state.next_partition_number, added))
        return Decided(None, frame)


class HostPartitions(NamedTuple):
    """What the catalogue, which lies in another lane, has placed in this one: partitions, or none
    but offsets of them.

    Said again after a crash between the two, it finds its partitions there. Those of an older
    topic of this name, whose deletion did not come so far, make room for it in the same frame.
    """

    name: str
    topic_id: bytes
    indexes: Sequence[int]
    """All of them, in their order."""
    partition_count: int

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        # Those that are there are the first: topics only grow.
        hosted_count = state.hosting.count(self.name)
        frame = Frame(at)
        known_id = state.topic_ids.get(self.name)
        dropped = None
        if known_id and known_id != self.topic_id:
            dropped = add_deletion(state, environment, frame, self.name)
            hosted_count = 0
        missing = tuple(self.indexes[hosted_count:])
        known_count = state.partition_counts.get(self.name)
        is_known = known_id == self.topic_id and known_count == self.partition_count
        if missing or not is_known:
            frame.add_fact(
                facts.PartitionsHosted(
                    self.name,
                    self.topic_id,
                    state.next_partition_number,
                    missing,
                    self.partition_count,
                )
            )
        if dropped is None:
            return Decided(None, frame)
        return Decided(
            None, frame, Claim.ENDING, dropped.owed_change, volatile=dropped.forgotten_offsets
        )


class ConfigureTopic(NamedTuple):
    name: str
    config: dict[str, str]
    only_check: bool = False

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        state.catalogue.named(self.name)
        check_config_size(self.config)
        frame = Frame(at)
        if not self.only_check:
            frame.add_fact(facts.TopicConfigured(self.name, self.config))
        return Decided(None, frame)


class ConfigureBroker(NamedTuple):
    """While it runs; the empty name stands for all brokers."""

    name: str
    config: dict[str, str]
    only_check: bool = False

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        check_config_size(self.config)
        frame = Frame(at)
        if not self.only_check and state.broker_configs.get(self.name, {}) != self.config:
            frame.add_fact(facts.BrokerConfigured(self.name, self.config))
        return Decided(None, frame)


class DeleteTopic(NamedTuple):
    """In the same frame all that is known about it elsewhere in the lane.

    A lane that has none of its partitions may have offsets of them.
    """

    name: str

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        frame = Frame(at)
        deletion = add_deletion(state, environment, frame, self.name)
        return Decided(
            None, frame, Claim.ENDING, deletion.owed_change, volatile=deletion.forgotten_offsets
        )


class Deletion(NamedTuple):
    owed_change: int
    forgotten_offsets: GroupDecision


def add_deletion(state: LaneState, environment: Environment, frame: Frame, name: str) -> Deletion:
    """Its offsets are forgotten, and open transactions go on without it: one that still named a
    partition which is gone could never be given its markers."""
    forgotten = state.groups.decide(ForgetOffsets(name), UNASKED, frame.at)
    add_group_batches(state, environment, frame, forgotten.records)
    owed_change = 0
    for transaction in state.transactions.open():
        if participants(transaction.partitions).has_topic(name):
            forgetting = ForgetTopic(name)
            _, change = add_transaction(state, environment, frame, transaction, forgetting)
            owed_change += change
    if name in state.partition_counts:
        frame.add_fact(facts.TopicDeleted(name))
    return Deletion(owed_change, forgotten)


class DeleteRecords(NamedTuple):
    """Those below `before_offset` (-1: all that are readable) are no longer shown.

    Gives the offset from which on the partition is shown then.
    """

    partition: TopicPartition
    before_offset: int

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[Offset]:
        partition = state.partition(*self.partition)
        assert partition is not None
        end = partition.high_watermark
        before = end if self.before_offset == -1 else Offset(self.before_offset)
        if not 0 <= before <= end:
            raise OffsetOutOfRange(f"offset {before} is not between 0 and the end {end}")
        if before <= partition.log_start_offset:
            return Decided(partition.log_start_offset)
        frame = Frame(at)
        frame.add_fact(facts.RecordsDeleted(partition.number, before))
        return Decided(before, frame, Claim.ENDING)


class DeleteExpired(NamedTuple):
    """What partitions keep no longer, by their numbers: records below an offset.

    Nothing at or behind the last stable offset goes: a transaction is kept as long as it is open.
    """

    before_offsets: tuple[tuple[int, Offset], ...]

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        frame = Frame(at)
        for number, before in self.before_offsets:
            partition = state.partitions.get(number)
            if partition is not None:
                bound = min(before, partition.last_stable_offset)
                if bound > partition.log_start_offset:
                    frame.add_fact(facts.RecordsDeleted(number, bound))
        return Decided(None, frame, Claim.ENDING)


class EnforceRetention(NamedTuple):
    """From here on topics delete what they keep no longer."""

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        frame = Frame(at)
        if not state.is_retention_enforced:
            frame.add_fact(facts.RetentionEnforced())
        return Decided(None, frame)
