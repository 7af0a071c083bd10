"""Takes a snapshot of a lane's state, which a checkpoint keeps: a start replays what follows it.

It is given in pieces, between which the lane goes on. At its start nothing is copied of what there
may be much of. Each thing is captured when its turn comes, or before. Law: whatever a later frame
is about to change is captured first, and what it drops is kept until then. So all pieces together
are the state at the start.
"""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Final, Generic, NamedTuple, TypeVar

from semel.groups.lasting import GroupsSnapshot, LastingGroup, OffsetInSnapshot, captured_group
from semel.groups.records import GenerationRecorded
from semel.lane import facts
from semel.lane.catalogue import Topic
from semel.lane.hosting import PartitionRange
from semel.lane.leader import stored_listeners
from semel.lane.snapshot_format import (
    FORMAT,
    FORMAT_OF_LANES,
    FORMAT_OF_ONE_LANE,
    BrokerConfigsPiece,
    CompactedPiece,
    GroupsPiece,
    JoinedPiece,
    LanePiece,
    PartitionSnapshot,
    PartitionsPiece,
    ProducerSnapshot,
    ProducersPiece,
    QuotasPiece,
    RulesPiece,
    TopicSnapshot,
    TopicsPiece,
    TransactionsPiece,
    UsersPiece,
    framed,
)
from semel.lane.state import CompactedPart, LaneState
from semel.log.partition import Partition, TermStart
from semel.log.producers import Producer
from semel.log.snapshot import PartitionTransactionsSnapshot
from semel.transactions.store import Kept
from semel.transactions.transaction import Transaction, TransactionsSnapshot
from semel.types import CATALOGUE_LANE

ITEMS_PER_PIECE: Final = 400
"""Partitions, producers, offsets and so on: less than a millisecond of work."""

NUMBERS_PER_PIECE: Final = 5_000
"""Of a topic's partitions, which cost much less."""

Thing = TypeVar("Thing")
Captured = TypeVar("Captured")


def take(state: LaneState) -> Iterator[bytes]:
    """The state as of now, whatever is applied to it before the last piece is taken."""
    return Capture(state).pieces()


class CapturedTopic(NamedTuple):
    name: str
    topic: Topic | None
    """None in a lane that has some of its partitions, and not the catalogue."""
    topic_id: bytes
    config: dict[str, str]
    partition_count: int
    ranges: tuple[PartitionRange, ...]


class CapturedPartition(NamedTuple):
    number: int
    log_start_offset: int
    log_end_offset: int
    term_starts: list[TermStart]
    transactions: PartitionTransactionsSnapshot
    producers: dict[int, Producer]
    compacted: CompactedPart | None


class CapturedTransaction(NamedTuple):
    value: Transaction
    changed_ms: int


class Things(Generic[Thing, Captured]):
    """Those of one kind that were there at the start, by numbers that rise as they come."""

    def __init__(
        self,
        walk: Callable[[], Iterator[tuple[int, Thing]]],
        end: int,
        capture: Callable[[Thing], Captured],
    ) -> None:
        self._walk = walk
        self._end = end
        """No number from there on had been given at the start."""
        self._capture = capture
        self._reached = 0
        """All before this number are captured, but those dropped."""
        self._done: set[int] = set()
        """From there on."""
        self._early: list[Captured] = []
        self._dropped: list[Thing] = []
        """Before their turn. They change no more."""

    def before_change(self, number: int, thing: Thing) -> None:
        if self._is_due(number):
            self._done.add(number)
            self._early.append(self._capture(thing))

    def before_drop(self, number: int, thing: Thing) -> None:
        """It will be as it is for as long as anybody holds it: it need not be captured now."""
        if self._is_due(number):
            self._done.add(number)
            self._dropped.append(thing)

    def _is_due(self, number: int) -> bool:
        return self._reached <= number < self._end and number not in self._done

    def __iter__(self) -> Iterator[Captured]:
        """Each once, as it was at the start."""
        for number, thing in self._walk():
            while self._early:
                yield self._early.pop()
            if number >= self._end:
                break
            self._reached = number + 1
            if number in self._done:
                self._done.remove(number)
            else:
                yield self._capture(thing)
        self._reached = self._end
        yield from self._early
        for thing in self._dropped:
            yield self._capture(thing)


class Capture:
    """A snapshot under way. It must be told before anything that it holds is changed."""

    def __init__(self, state: LaneState) -> None:
        assert state.capture is None, "one snapshot at a time"
        state.capture = self
        state.groups.before_change(self.before_group)
        state.transactions.before_change = self.before_transaction
        self._state = state
        last, led = state.last_moment, state.led
        self._lane = LanePiece(
            state.term,
            state.cluster_id,
            state.next_partition_number,
            state.next_producer_id,
            None if last is None else (last.now_ms, last.wall_ms),
            state.wall_ahead_ms,
            state.volumes.copy(),
            state.settled_end,
            state.next_volume,
            state.is_retention_enforced,
            None if led is None else (led.epoch, led.node_id, led.host, led.port),
            state.standing_by,
            state.level,
            state.volume_names.copy(),
            state.lanes.count,
            state.lanes.stored_placements(),
            state.lanes.stored_leaders(),
            () if led is None else led.listeners,
            stored_listeners(state.listeners, () if led is None else (led.node_id,)),
        )
        topics, hosting = state.topic_arrivals, state.hosting
        self._topics = Things(topics.walk, topics.next_number, self._topic)
        # One that is made later equals one that was never written until it changes, so that nothing
        # has to be copied to tell them apart.
        self._partitions = Things(
            lambda: ((each.number, each) for each in hosting.made_by_number()),
            hosting.next_number,
            self._partition,
        )
        groups = state.groups.lasting
        self._groups = Things(groups.walk, groups.next_number, captured_group)
        self._group_order = state.groups.order
        ids = state.transactions.arrivals
        self._transactions = Things(ids.walk, ids.next_number, _captured_transaction)
        # There are few of these.
        self._compacted_volumes = state.compacted_volumes.copy()
        self._joined = list(state.joined.open.values())
        self._ended = list(state.joined.ended.items())
        self._decided = list(state.joined.decided.values())
        self._broker_configs = state.broker_configs.copy()
        self._users = state.users.by_name.copy()
        self._salt_key = state.users.salt_key
        self._rules = [*state.access_list]
        self._quotas = state.quotas.by_entity.copy()

    def _topic(self, name: str) -> CapturedTopic:
        state = self._state
        topic = state.catalogue.get(name)
        return CapturedTopic(
            name,
            topic,
            state.topic_ids[name],
            {} if topic is None else topic.config,
            state.partition_counts[name],
            state.hosting.ranges(name),
        )

    def _partition(self, partition: Partition) -> CapturedPartition:
        return CapturedPartition(
            partition.number,
            partition.log_start_offset,
            partition.log_end_offset,
            partition.term_starts.copy(),
            partition.transactions.snapshot(),
            partition.producers.copy(),
            self._state.compacted.get(partition.number),
        )

    def before_topic(self, number: int, name: str) -> None:
        self._topics.before_change(number, name)

    def before_partition(self, partition: Partition) -> None:
        self._partitions.before_change(partition.number, partition)

    def before_drop(self, partition: Partition) -> None:
        if partition.number in self._state.compacted:
            # That stands in the state.
            self._partitions.before_change(partition.number, partition)
        else:
            self._partitions.before_drop(partition.number, partition)

    def before_group(self, group: LastingGroup) -> None:
        self._groups.before_change(group.number, group)

    def before_transaction(self, kept: Kept) -> None:
        self._transactions.before_change(kept.number, kept)

    def pieces(self) -> Iterator[bytes]:
        try:
            yield bytes([self._format()]) + framed(self._lane)
            yield from self._topic_pieces()
            yield from self._partition_pieces()
            yield from self._group_pieces()
            yield from self._transaction_pieces()
            yield from self._joined_pieces()
            if self._broker_configs:
                yield framed(BrokerConfigsPiece(self._broker_configs))
            yield from self._user_pieces()
            yield from self._rule_pieces()
            yield from self._quota_pieces()
        finally:
            self._state.capture = None
            self._state.groups.before_change(None)
            self._state.transactions.before_change = None

    def _format(self) -> int:
        """The first that has all there is to say."""
        if self._salt_key or self._rules or self._quotas:
            return FORMAT
        is_of_lanes = self._joined or self._ended or self._decided
        return FORMAT_OF_LANES if is_of_lanes else FORMAT_OF_ONE_LANE

    def _topic_pieces(self) -> Iterator[bytes]:
        gathered: list[TopicSnapshot] = []
        for captured in self._topics:
            numbers = chain.from_iterable(each.numbers for each in captured.ranges)
            indexes = chain.from_iterable(each.indexes for each in captured.ranges)
            some = list(islice(numbers, NUMBERS_PER_PIECE))
            while True:
                gathered.append(_topic_row(captured, some, list(islice(indexes, len(some)))))
                if len(gathered) == ITEMS_PER_PIECE or len(some) == NUMBERS_PER_PIECE:
                    yield framed(TopicsPiece(gathered))
                    gathered = []
                some = list(islice(numbers, NUMBERS_PER_PIECE))
                if not some:
                    break
        yield framed(TopicsPiece(gathered))

    def _partition_pieces(self) -> Iterator[bytes]:
        gathered: list[PartitionSnapshot] = []
        parts: list[tuple[int, int, int, int]] = []
        left = ITEMS_PER_PIECE
        for captured in self._partitions:
            if captured.compacted is not None:
                parts.append((captured.number, *captured.compacted))
            rows = _producer_rows(captured.producers)
            some = list(islice(rows, left))
            # One that was only asked for is as if it had never been made.
            if captured.log_end_offset > 0:
                gathered.append(
                    PartitionSnapshot(
                        captured.number,
                        captured.log_start_offset,
                        captured.log_end_offset,
                        captured.term_starts,
                        captured.transactions,
                        some,
                    )
                )
            left -= 1 + len(some)
            if left <= 0:
                yield framed(PartitionsPiece(gathered))
                gathered, left = [], ITEMS_PER_PIECE
                while some := list(islice(rows, ITEMS_PER_PIECE)):
                    yield framed(ProducersPiece(captured.number, some))
                if parts:
                    yield framed(CompactedPiece(parts, self._compacted_volumes))
                    parts = []
        yield framed(PartitionsPiece(gathered))
        if parts:
            yield framed(CompactedPiece(parts, self._compacted_volumes))

    def _group_pieces(self) -> Iterator[bytes]:
        generations: list[GenerationRecorded] = []
        generations_ms: list[int] = []
        offsets: list[OffsetInSnapshot] = []
        left = ITEMS_PER_PIECE

        def gathered() -> bytes:
            groups = GroupsSnapshot(
                tuple(generations), tuple(offsets), self._group_order, tuple(generations_ms)
            )
            for column in (generations, generations_ms, offsets):
                column.clear()
            return framed(GroupsPiece(groups))

        for group in self._groups:
            if group.recorded is not None:
                generations.append(group.recorded)
                generations_ms.append(group.recorded_ms)
            left -= 1
            rows = group.offsets()
            while True:
                some = list(islice(rows, max(left, 0)))
                offsets += some
                left -= len(some)
                if left > 0:
                    break
                yield gathered()
                left = ITEMS_PER_PIECE
        yield gathered()

    def _transaction_pieces(self) -> Iterator[bytes]:
        values: list[Transaction] = []
        changed_ms: list[int] = []
        left = ITEMS_PER_PIECE

        def gathered() -> bytes:
            snapshot = TransactionsSnapshot(tuple(values), tuple(changed_ms))
            values.clear()
            changed_ms.clear()
            return framed(TransactionsPiece(snapshot))

        for captured in self._transactions:
            values.append(captured.value)
            changed_ms.append(captured.changed_ms)
            left -= 1 + len(captured.value.partitions)
            if left <= 0:
                yield gathered()
                left = ITEMS_PER_PIECE
        if values:
            yield gathered()

    def _joined_pieces(self) -> Iterator[bytes]:
        for joined in self._joined:
            # Each may have very many partitions.
            yield framed(JoinedPiece(joined=[joined]))
        ended = iter(self._ended)
        while some := list(islice(ended, ITEMS_PER_PIECE)):
            yield framed(JoinedPiece(ended=some))
        decided = iter(self._decided)
        while more := list(islice(decided, ITEMS_PER_PIECE)):
            yield framed(JoinedPiece(decided=more))

    def _user_pieces(self) -> Iterator[bytes]:
        if not self._salt_key:
            return
        rows = (
            facts.CredentialSet(name, *credential)
            for name, credentials in self._users.items()
            for credential in credentials.values()
        )
        yield framed(UsersPiece(self._salt_key))
        while some := list(islice(rows, ITEMS_PER_PIECE)):
            yield framed(UsersPiece(self._salt_key, some))

    def _rule_pieces(self) -> Iterator[bytes]:
        rules = iter(self._rules)
        while some := list(islice(rules, ITEMS_PER_PIECE)):
            yield framed(RulesPiece([rule.stored() for rule in some]))

    def _quota_pieces(self) -> Iterator[bytes]:
        rows = (facts.QuotasSet(*entity, dict(of)) for entity, of in self._quotas.items())
        while some := list(islice(rows, ITEMS_PER_PIECE)):
            yield framed(QuotasPiece(some))


def _topic_row(captured: CapturedTopic, numbers: list[int], indexes: list[int]) -> TopicSnapshot:
    topic = captured.topic
    if topic is not None and (topic.first_lane, topic.lane_count) == (CATALOGUE_LANE, 1):
        return TopicSnapshot(captured.name, topic.topic_id, captured.config, numbers)
    return TopicSnapshot(
        captured.name,
        b"" if topic is None else topic.topic_id,
        captured.config,
        numbers,
        indexes,
        captured.partition_count,
        0 if topic is None else topic.first_lane,
        1 if topic is None else topic.lane_count,
        captured.topic_id if topic is None else b"",
    )


def _captured_transaction(kept: Kept) -> CapturedTransaction:
    return CapturedTransaction(kept.value, kept.changed_ms)


def _producer_rows(producers: dict[int, Producer]) -> Iterator[ProducerSnapshot]:
    for producer_id, producer in producers.items():
        yield ProducerSnapshot(
            producer_id,
            producer.epoch,
            producer.active_at_ms,
            producer.taken,
            producer.restart,
            producer.transaction_start,
        )
