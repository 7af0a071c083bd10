"""What may be read of a lane: its state, typed so that nobody outside can change it.

A view shows what is applied, which may not be durable yet. So an answer that was read here waits,
as all do, until the lane is durable up to what it was read from.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from semel.access.access_view import AccessView
from semel.errors import GroupIdNotFound, UnknownTopicOrPartition
from semel.groups.commands import FetchedOffset, FetchOffsets, GroupDescription, GroupListing
from semel.lane.calls import Outcome
from semel.lane.clock import LaneClock
from semel.lane.joined import JoinedTransaction, LastEnded, outcomes_of
from semel.lane.lanes import LanesView
from semel.lane.leader import Listeners, NodeAddress
from semel.lane.nodes import standing_by
from semel.lane.state import LaneState
from semel.log.partition import Partition, TermStart, check_leader_epoch
from semel.log.producers import Producer
from semel.transactions.key import TransactionKey, Turn
from semel.transactions.transaction import Transaction
from semel.types import (
    GroupId,
    Offset,
    ProducerEpoch,
    ProducerId,
    Term,
    TopicPartition,
    TransactionalId,
)


class TopicView(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def topic_id(self) -> bytes: ...
    @property
    def config(self) -> Mapping[str, str]: ...
    @property
    def partition_count(self) -> int: ...
    @property
    def is_internal(self) -> bool: ...
    @property
    def first_lane(self) -> int: ...
    @property
    def lane_count(self) -> int: ...
    @property
    def batch_size_max(self) -> int | None: ...
    @property
    def is_log_append_time(self) -> bool: ...
    @property
    def is_compacted(self) -> bool | None:
        """None: as the broker's default says."""

    def lane_of(self, index: int) -> int:
        """The number of the lane that partition `index` lies in."""

    def indexes_in(self, lane_number: int) -> Sequence[int]:
        """The partitions that lie in a lane."""


class CatalogueView(Protocol):
    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[TopicView]: ...

    def walk(self, first: str = "") -> Iterator[TopicView]:
        """In the order of their names, from this one on; others may come and go meanwhile."""

    def __contains__(self, name: str) -> bool: ...

    def get(self, name: str) -> TopicView | None: ...

    def with_id(self, topic_id: bytes) -> TopicView | None: ...

    def named(self, name: str) -> TopicView:
        """Raises UnknownTopicOrPartition."""

    def has_partition(self, name: str, index: int) -> bool: ...


class PartitionView(Protocol):
    @property
    def topic_partition(self) -> TopicPartition: ...
    @property
    def number(self) -> int: ...
    @property
    def log_start_offset(self) -> Offset: ...
    @property
    def log_end_offset(self) -> Offset: ...
    @property
    def high_watermark(self) -> Offset: ...
    @property
    def last_stable_offset(self) -> Offset: ...

    def end_of_term(self, term: int, current: Term) -> TermStart: ...

    def term_at(self, offset: Offset, current: Term) -> Term: ...


class ActiveProducer(NamedTuple):
    """Who writes to a partition, and what it left open there."""

    producer_id: ProducerId
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start_offset: int


class HostedTopic(NamedTuple):
    """A topic of which a lane has partitions or offsets, as that lane knows it."""

    name: str
    topic_id: bytes
    partition_count: int
    """With those that lie in other lanes."""


class LaneView:
    def __init__(self, state: LaneState, clock: LaneClock) -> None:
        self._state = state
        self._clock = clock
        self._made = state.hosting.made_by_topic
        self.catalogue: CatalogueView = state.catalogue

    @property
    def term(self) -> Term:
        return self._state.term

    @property
    def epoch(self) -> Term:
        """What clients know as the leader epoch."""
        return self._state.epoch

    def check_leader_epoch(self, claimed: int) -> None:
        """A client that names the leadership it knows must know the one there is."""
        check_leader_epoch(claimed, self._state.epoch)

    @property
    def cluster_id(self) -> bytes:
        return self._state.cluster_id

    def broker_config(self, name: str) -> Mapping[str, str]:
        """What was set for a broker while it ran; for all of them, by an empty name."""
        return self._state.broker_configs.get(name, {})

    @property
    def broker_config_names(self) -> list[str]:
        """Of those for which something was set."""
        return list(self._state.broker_configs)

    @property
    def access(self) -> AccessView:
        """As lane 0 says."""
        return self._state.access

    def now_ms(self) -> int:
        """The lane's own time."""
        return self._clock.now_ms()

    def wall_ms(self) -> int:
        return self._clock.wall_ms()

    def steady_wall_ms(self) -> int:
        """The time of day, but no later than what has passed since the open allows: a clock that
        is set ahead makes no record old."""
        return self._clock.steady_wall_ms()

    @property
    def is_retention_enforced(self) -> bool:
        """Whether topics delete what they keep no longer. False in a folder of a version that kept
        everything, until an operator allows it."""
        return self._state.is_retention_enforced

    # Partitions

    @property
    def level(self) -> int:
        """Of the cluster: only what all versions that know this level can read may be written."""
        return self._state.level

    @property
    def standing_by(self) -> list[NodeAddress]:
        """Other nodes than the leader that it hears of."""
        return standing_by(self._state)

    @property
    def listeners(self) -> Mapping[int, Listeners]:
        """Where clients find these and the leader, by their ids."""
        return self._state.listeners

    @property
    def lanes(self) -> LanesView:
        """Of a cluster, as lane 0 knows them."""
        return self._state.lanes

    @property
    def partition_count(self) -> int:
        return self._state.hosting.partition_count

    def partitions(self) -> Iterator[PartitionView]:
        """Those that may have been written to, by rising number. Who awaits something between two
        is given none that is deleted by then, and perhaps some that are new."""
        return self._state.hosting.made_by_number()

    def partition(self, topic: str, index: int) -> PartitionView:
        made = self._made.get(topic)
        found = None if made is None else made.get(index)
        if found is not None:
            return found
        found = self._state.partition(topic, index)
        if found is None:
            if topic in self._state.partition_counts:
                raise UnknownTopicOrPartition(f"topic {topic!r} has no partition {index}")
            raise UnknownTopicOrPartition(f"there is no topic {topic!r}")
        return found

    def written(self, topic: str, index: int) -> PartitionView | None:
        """None if nothing can have been written to it. Of one that lies here."""
        return self._made.get(topic, {}).get(index)

    def producers(self, topic: str, index: int) -> Iterator[ActiveProducer]:
        """As they are when the first is asked for, however long the reader takes."""
        partition = self._hosted(topic, index)
        known = partition.producers.copy()
        return (self._active(partition, ProducerId(each), known[each]) for each in known)

    def _hosted(self, topic: str, index: int) -> Partition:
        partition = self._state.partition(topic, index)
        if partition is None:
            raise UnknownTopicOrPartition(f"there is no partition {topic}-{index}")
        return partition

    def _active(
        self, partition: Partition, producer_id: ProducerId, producer: Producer
    ) -> ActiveProducer:
        ahead_ms = self._clock.wall_ms() - self._clock.now_ms()
        first_offset = partition.transactions.first_offset(producer_id)
        return ActiveProducer(
            producer_id,
            producer.epoch,
            producer.taken[-1].last_sequence if producer.taken else -1,
            producer.active_at_ms + ahead_ms,
            -1 if first_offset is None else first_offset,
        )

    def hosts(self, topic: str) -> bool:
        return topic in self._state.partition_counts

    def hosted_topics(self) -> list[HostedTopic]:
        ids = self._state.topic_ids
        return [
            HostedTopic(name, ids[name], count)
            for name, count in self._state.partition_counts.items()
        ]

    def topic_id(self, topic: str) -> bytes | None:
        """Of a topic of which there are partitions or offsets here."""
        return self._state.topic_ids.get(topic)

    def hosts_partition(self, topic: str, index: int) -> bool:
        return self._state.hosting.has(topic, index)

    def known_partition_count(self, topic: str) -> int | None:
        """How many partitions a topic has in all lanes; None if this lane knows nothing of it."""
        return self._state.partition_counts.get(topic)

    def open_in(self, partition: TopicPartition, producer_id: ProducerId) -> ActiveProducer | None:
        """What this producer has open in a partition."""
        hosted = self._hosted(*partition)
        producer = hosted.producers.get(producer_id)
        if producer is None or hosted.transactions.first_offset(producer_id) is None:
            return None
        return self._active(hosted, producer_id, producer)

    # Transactions

    def transaction(self, transactional_id: TransactionalId) -> Transaction | None:
        return self._state.transactions.get(transactional_id)

    def transaction_of(self, producer_id: ProducerId) -> Transaction | None:
        return self._state.transactions.of_producer(producer_id)

    def transactions(self) -> Iterator[Transaction]:
        """Each as it is when its turn comes: others may come and go meanwhile."""
        return iter(self._state.transactions)

    @property
    def open_transaction_count(self) -> int:
        return self._state.transactions.open_count

    def open_transactions(self) -> tuple[Transaction, ...]:
        return self._state.transactions.open()

    # Transactions over lanes

    def joined(self, producer_id: ProducerId) -> JoinedTransaction | None:
        """What is open here of another lane's coordinator."""
        return self._state.joined.open.get(producer_id)

    @property
    def has_prepared(self) -> bool:
        """Something of other lanes' transactions waits for its outcome."""
        return self._state.joined.prepared_count > 0

    @property
    def has_unconfirmed(self) -> bool:
        """Other lanes may still hold something of what was decided here."""
        return bool(self._state.joined.decided)

    @property
    def has_joined(self) -> bool:
        return bool(self._state.joined.open)

    def all_joined(self) -> tuple[JoinedTransaction, ...]:
        return tuple(self._state.joined.open.values())

    def has_ended(self, key: TransactionKey) -> bool:
        """Whether this transaction is known to have ended here, or one behind it, since when it
        cannot join any more."""
        joined = self._state.joined
        last, still_open = joined.ended.get(key.producer_id), joined.open.get(key.producer_id)
        is_open = still_open is not None and still_open.key == key
        return last is not None and key.turn <= Turn(*last.turn) and not is_open

    def knows_stable_end(self, partition: TopicPartition) -> bool:
        """False while nobody here knows how a transaction ended that the leader before may have
        shown: the last stable offset must not fall for those who hear of it."""
        joined = self._state.joined
        if not joined.inherited:
            return True
        joined.inherited = [each for each in joined.inherited if self._is_prepared(each.key)]
        return all(partition not in each.partitions for each in joined.inherited)

    def _is_prepared(self, key: TransactionKey) -> bool:
        joined = self._state.joined.open.get(key.producer_id)
        if joined is not None and joined.key == key:
            return True
        current = self._state.transactions.of_producer(key.producer_id)
        return current is not None and current.key == key and current.is_prepared

    def silent_ends(self, before_ms: int) -> list[tuple[ProducerId, LastEnded]]:
        """Producers of which nothing was heard since then, and how their last ended."""
        return [
            (producer_id, last)
            for producer_id, last in self._state.joined.ended.items()
            if last.ended_ms < before_ms and producer_id not in self._state.joined.open
        ]

    def outcome(self, key: TransactionKey) -> Outcome | None:
        """How a transaction of this lane's coordinator has ended; None if it has not. One that it
        does not know was aborted."""
        decided = self._state.joined.decided.get(key)
        if decided is not None:
            epochs = ProducerEpoch(decided.producer_epoch), Term(decided.coordinator_epoch)
            return Outcome(key, decided.commit, *epochs)
        current = self._state.transactions.of_producer(key.producer_id)
        if current is not None and current.key == key and current.is_open and current.lanes:
            return None
        # Nothing is concluded from how its producer's last one ended: that may have been another,
        # in this lane alone, which needs no key of its own.
        return Outcome(key, False, key.producer_epoch, self._state.term)

    def unconfirmed(self) -> Iterator[tuple[int, Outcome]]:
        """What was decided here, and lanes that may not know it."""
        for decided in list(self._state.joined.decided.values()):
            yield from outcomes_of(decided)

    def is_unconfirmed(self, producer_id: ProducerId) -> bool:
        """Whether another lane may still hold something of this producer that has ended."""
        return any(True for _ in self._state.joined.unconfirmed(producer_id))

    # Groups

    def group(self, group_id: GroupId) -> GroupDescription | None:
        return self._state.groups.describe(group_id)

    def check_group(self, group_id: GroupId) -> None:
        """Raises GroupIdNotFound."""
        if self._state.groups.describe(group_id) is None:
            raise GroupIdNotFound(f"there is no group {group_id!r}")

    def groups(self) -> Iterator[GroupListing]:
        """As `transactions`."""
        return self._state.groups.listed()

    def committed_offsets(self, group_id: GroupId) -> Iterator[tuple[TopicPartition, int]]:
        """As they are when the first is asked for, however long the reader takes."""
        return self._state.groups.committed(group_id)

    def fetch_offsets(self, command: FetchOffsets) -> tuple[FetchedOffset, ...]:
        return self._state.groups.fetch_offsets(command)
