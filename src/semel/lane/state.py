"""The lane's lasting state: what one gets by applying its frames in order.

Law: `apply` is the only way in which it changes, live and at replay alike. Nothing here decides or
waits. (`Groups` and `Partition` hold volatile things besides; there they say so.)
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, assert_never, cast

from semel.access.access_list import AccessList
from semel.access.access_view import AccessView
from semel.access.quotas import Entity, Quotas
from semel.access.rules import Rule
from semel.access.scram import Credential, Mechanism
from semel.access.users import Users
from semel.arrivals import Arrivals
from semel.errors import CorruptJournal
from semel.groups import records as group_records
from semel.groups.coordinator import Groups
from semel.groups.records import GroupRecord
from semel.lane import facts
from semel.lane.catalogue import Catalogue
from semel.lane.frame import BatchEntry, Frame, Learned
from semel.lane.hosting import Hosting
from semel.lane.joined import JoinedTransactions
from semel.lane.lanes import Lanes
from semel.lane.leader import FIRST_LEVEL, Listeners, StoredListener
from semel.log.partition import Partition
from semel.log.transactions import Aborted
from semel.records.batch import CONTROL
from semel.records.control import MarkerType
from semel.records.records import decode_batch
from semel.transactions import records as transaction_records
from semel.transactions.store import Transactions
from semel.transactions.transaction import Transaction
from semel.types import (
    INTERNAL_TOPICS,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    Offset,
    Position,
    ProducerEpoch,
    ProducerId,
    Term,
)
from semel.world import Moment

if TYPE_CHECKING:
    from semel.lane.snapshot import Capture


class Effects(NamedTuple):
    """What a frame leads to outside of the state."""

    gone: list[Partition]
    """Partitions that are deleted by it."""
    aborted: list[tuple[int, Aborted]]
    """Transactions that were aborted in a partition, by its number."""
    moved_log_starts: bool = False
    """Records of a partition are no longer shown."""
    has_settled: bool = False
    """Batches lie elsewhere now."""
    outcomes: tuple[facts.Ended | facts.Decided, ...] = ()
    """Of transactions over lanes."""
    shown: tuple[Partition, ...] = ()
    """Partitions of which more may be read than before, although nothing more is durable."""


NO_EFFECTS: Final = Effects([], [])

LANE_SHIFT: Final = 40
"""A lane counts producer ids from its own number, moved up by so many bits, so that no two lanes
ever give the same one."""


class CompactedPart(NamedTuple):
    """What compaction has left of a partition up to an offset, and where that lies."""

    end: Offset
    volume: int
    byte_count: int
    """If that is 0 there is nothing in the volume, which then need not be there."""


class LaneState:
    def __init__(  # noqa: PLR0915  All that lasts.
        self,
        groups: Groups,
        transactions: Transactions,
        lane_number: int = 0,
        joined: JoinedTransactions | None = None,
    ) -> None:
        self.lane_number = lane_number
        self.term = Term(-1)  # No process has opened the journal yet.
        self.led: facts.Led | None = None
        """Who leads; None where nobody else can take the journal."""
        self.epoch = self.term
        """What clients know as the leader epoch, and batches carry: it rises with every leader,
        the term only where acknowledged bytes may be missing (rule 16)."""
        self.standing_by: tuple[tuple[int, str, int], ...] = ()
        """Id, host and port of each node that the leader has heard of lately. Empty but in lane 0
        of a cluster."""
        self.listeners: dict[int, Listeners] = {}
        """Of these nodes and the leader: where clients find them."""
        self.level = FIRST_LEVEL
        """What versions a cluster writes for: those that know this level. Law: it never falls."""
        self.lanes = Lanes()
        """Where the other lanes of a cluster are led. Empty but in lane 0."""
        self.last_moment: Moment | None = None
        """When the last frame was made; None if nothing says so."""
        self.wall_ahead_ms = 0
        """By how much the wall clock was ahead of the lane's time when it last showed more than in
        all frames before. A clock that was set back shows nothing new, and tells nothing."""
        self.cluster_id = b""
        self.catalogue = Catalogue()
        """Empty but in lane 0."""
        self.hosting = Hosting()
        """The partitions that lie in this lane."""
        self.topic_arrivals = Arrivals[str]()
        """The names of those below."""
        self._topic_numbers: dict[str, int] = {}
        self.partition_counts: dict[str, int] = {}
        """Of the topics that have partitions here, or offsets of theirs; with those elsewhere."""
        self.topic_ids: dict[str, bytes] = {}
        """Of the same; empty where an older snapshot does not say it."""
        self.broker_configs: dict[str, dict[str, str]] = {}
        """What was set while brokers ran, by the names that facts have. Empty but in lane 0; a
        value is replaced, never changed."""
        self.users = Users()
        self.access_list = AccessList()
        self.quotas = Quotas()
        """These are empty but in lane 0."""
        self.partitions = self.hosting.made
        """Those of which there may be anything to say, by the number that stands before their
        batches in a frame."""
        self.next_producer_id = ProducerId(lane_number << LANE_SHIFT)
        self.groups = groups
        self.transactions = transactions
        self.joined = joined or JoinedTransactions()
        self.volumes: list[int] = []
        """What lives on of the journal before `settled_end`, in its order."""
        self.settled_end = Position(0)
        self.compacted: dict[int, CompactedPart] = {}
        """By the number of the partition."""
        self.compacted_volumes: dict[int, int] = {}
        """Those that hold what compaction has left, and the bytes that were left when each was
        made."""
        self.compacted_live_bytes: dict[int, int] = {}
        """Of the same volumes, the bytes that are still needed. Law: there is none without any."""
        self.volume_names: dict[int, str] = {}
        """Of the volumes that lie in an object store. Law: there is none that is not needed."""
        self.next_volume = 0
        self.is_retention_enforced = False
        self._coordinated: dict[int, Callable[[BatchEntry, int], None]] = {}
        """Who learns from the batches of a partition of an internal topic."""
        self.capture: Capture | None = None
        """A snapshot under way. Law: it is told of a topic or a partition before that changes."""

    @property
    def access(self) -> AccessView:
        return AccessView(self.users, self.access_list, self.quotas)

    @property
    def owed_size(self) -> int:
        """Bytes of the ends of all transactions that are open here."""
        return self.transactions.owed_size + self.joined.owed_size

    def partition(self, topic: str, index: int) -> Partition | None:
        """None if it does not lie in this lane, or nowhere."""
        return self.hosting.partition(topic, index)

    @property
    def next_partition_number(self) -> int:
        return self.hosting.next_number

    # Applying

    def apply(self, frame: Frame) -> Effects:  # noqa: PLR0912  Calls cost.
        at = frame.at
        now_ms = at.now_ms
        effects = NO_EFFECTS
        for entry in frame.entries:
            if isinstance(entry, BatchEntry):
                if not entry.header.attributes & CONTROL:
                    self._apply_batch(entry, now_ms)
                    continue
                aborted = self._apply_marker(entry, now_ms)
                if aborted is not None:
                    if effects is NO_EFFECTS:
                        effects = Effects([], [])
                    effects.aborted.append((entry.number, aborted))
            elif isinstance(entry, facts.TopicDeleted):
                if effects is NO_EFFECTS:
                    effects = Effects([], [])
                effects.gone.extend(self._delete_topic(entry))
            elif isinstance(entry, facts.AboutLanes):
                self.joined.apply(entry, now_ms)
                if isinstance(entry, facts.Ended | facts.Decided):
                    outcomes = (*effects.outcomes, entry)
                    gone, aborted_here = [*effects.gone], [*effects.aborted]
                    effects = effects._replace(gone=gone, aborted=aborted_here, outcomes=outcomes)
            else:
                compacted_count = len(self.compacted)
                self._apply_fact(entry)
                if isinstance(entry, facts.RecordsDeleted | facts.Settled | facts.Compacted):
                    is_deletion = isinstance(entry, facts.RecordsDeleted)
                    effects = effects._replace(
                        gone=[*effects.gone],
                        aborted=[*effects.aborted],
                        moved_log_starts=effects.moved_log_starts or is_deletion,
                        has_settled=effects.has_settled
                        or not is_deletion
                        or len(self.compacted) != compacted_count,
                    )
        if effects is not NO_EFFECTS and any(outcome.commit for outcome in effects.outcomes):
            effects = effects._replace(shown=self._show_committed(frame))
        if at is not self.last_moment:
            self.passed(at)
        return effects

    def _show_committed(self, frame: Frame) -> tuple[Partition, ...]:
        """What was committed over lanes was durable before that was known, and is shown before its
        marker is durable: who hears that it is committed can read it."""
        shown = []
        for batch in frame.batches:
            if batch.marker is not None and batch.marker.type is MarkerType.COMMIT:
                partition = self.partitions[batch.number]
                partition.show_committed(batch.base_offset)
                shown.append(partition)
        return tuple(shown)

    def passed(self, at: Moment) -> None:
        """Take note of when a frame was made."""
        if self.last_moment is None or at.wall_ms > self.last_moment.wall_ms:
            self.wall_ahead_ms = at.wall_ms - at.now_ms
        self.last_moment = at

    def _apply_batch(self, batch: BatchEntry, now_ms: int) -> None:
        number = batch.number
        partition = self.partitions.get(number)
        if partition is None:
            partition = self._numbered(batch.number)
        if self.capture is not None:
            self.capture.before_partition(partition)
        base_offset = partition.append(batch.header, batch.fingerprint, batch.term, now_ms)
        if base_offset != batch.base_offset:
            raise _wrong_offset(partition, batch, base_offset)
        if number in self._coordinated:
            self._coordinated[number](batch, now_ms)

    def _apply_marker(self, batch: BatchEntry, now_ms: int) -> Aborted | None:
        partition = self.partitions.get(batch.number)
        if partition is None:
            partition = self._numbered(batch.number)
        if self.capture is not None:
            self.capture.before_partition(partition)
        marker = batch.marker
        if marker is None:
            raise CorruptJournal(
                f"a control batch of {partition.topic_partition} ends no transaction"
            )
        producer_id = ProducerId(marker.producer_id)
        committed = marker.type is MarkerType.COMMIT
        if partition.topic_partition.topic == OFFSETS_TOPIC:
            self.groups.apply_marker(producer_id, committed)
        offset, aborted = partition.end_transaction(
            producer_id, ProducerEpoch(marker.producer_epoch), committed, batch.term, now_ms
        )
        if offset != batch.base_offset:
            raise _wrong_offset(partition, batch, offset)
        return aborted

    def _learn_of_groups(self, batch: BatchEntry, now_ms: int) -> None:
        learned: Learned | None = batch.learned
        if learned is None:
            learned = tuple(
                news
                for record in decode_batch(batch.body)
                if (news := group_records.decode(record.key or b"", record.value)) is not None
            )
        producer_id = batch.header.producer_id
        for each in learned:
            self.groups.apply(cast(GroupRecord, each), now_ms, producer_id)

    def _learn_of_transactions(self, batch: BatchEntry, now_ms: int) -> None:
        learned = batch.learned
        if learned is None:
            learned = tuple(
                news
                for record in decode_batch(batch.body)
                if (news := transaction_records.decode(record.key or b"", record.value)) is not None
            )
        for each in learned:
            self.transactions.apply(cast(Transaction, each), now_ms)

    def _apply_fact(self, fact: facts.AnyFact) -> None:  # noqa: C901, PLR0912, PLR0915  A case each.
        match fact:
            case facts.Opened():
                self.lead(Term(fact.term), self.led)
            case facts.Led():
                self.lead(self.term, fact)
                self.listeners[fact.node_id] = fact.listeners
            case facts.StandingBy():
                self.standing_by = fact.nodes
                self.hear_of_listeners(fact.listeners)
            case facts.LevelRaised():
                self.level = max(self.level, fact.level)
            case facts.LanesAdded() | facts.Placed() | facts.LaneTaken():
                self.lanes.apply(fact)
            case facts.ClusterNamed():
                self.cluster_id = fact.cluster_id
            case facts.TopicCreated():
                self.catalogue.apply(fact)
                self.know_topic(fact.name, fact.topic_id, 0)
                self._host_from(fact.name, 0, fact.first_number)
            case facts.PartitionsAdded():
                self._before_topic(fact.name)
                first_index = self.catalogue.named(fact.name).partition_count
                self.catalogue.apply(fact)
                self._host_from(fact.name, first_index, fact.first_number)
            case facts.PartitionsHosted():
                self._before_topic(fact.name)
                self.know_topic(fact.name, fact.topic_id, fact.partition_count)
                self.host(fact.name, fact.indexes, fact.first_number)
            case facts.TopicConfigured():
                self._before_topic(fact.name)
                self.catalogue.apply(fact)
            case facts.BrokerConfigured():
                self.broker_configs[fact.name] = fact.config
            case facts.CredentialSet():
                mechanism = Mechanism(fact.mechanism)
                keys = fact.salt, fact.stored_key, fact.server_key
                self.users.set(fact.user, Credential(mechanism, fact.iterations, *keys))
            case facts.CredentialDropped():
                self.users.drop(fact.user, Mechanism(fact.mechanism))
            case facts.SaltKeyDrawn():
                self.users.draw(fact.key)
            case facts.RulesAdded():
                self.access_list.add(map(Rule.of_stored, fact.rules))
            case facts.RulesRemoved():
                self.access_list.remove(map(Rule.of_stored, fact.rules))
            case facts.QuotasSet():
                self.quotas.tell(Entity(fact.user, fact.client_id, fact.ip), fact.values)
            case facts.RecordsDeleted():
                partition = self._numbered(fact.partition_number)
                self._before_partition(partition)
                partition.delete_before(Offset(fact.log_start_offset))
                part = self.compacted.get(partition.number)
                if part is not None and partition.log_start_offset >= part.end:
                    self._forget_compacted(partition.number)
            case facts.ProducerIdTaken():
                self.next_producer_id = ProducerId(fact.producer_id + 1)
            case facts.ProducersExpired():
                for partition in self.partitions.values():
                    self._before_partition(partition)
                    partition.expire_producers(fact.before_ms)
            case facts.ProducersForgotten():
                partition = self._numbered(fact.partition_number)
                self._before_partition(partition)
                partition.forget_producers(fact.producer_ids)
            case facts.Settled():
                self._settle(fact)
            case facts.Compacted():
                self._adopt_compacted(fact)
            case facts.RetentionEnforced():
                self.is_retention_enforced = True
            case facts.CopiedHere():
                raise CorruptJournal("what was copied here is not whole: it has to be copied anew")
            case facts.TopicDeleted():
                raise AssertionError("a deletion has effects")
            case (
                facts.LaneJoined()
                | facts.Prepared()
                | facts.Doomed()
                | facts.Ended()
                | facts.Decided()
                | facts.Confirmed()
                | facts.EndsForgotten()
            ):
                raise AssertionError("applied before")
            case _:
                assert_never(fact)

    def lead(self, term: Term, led: facts.Led | None) -> None:
        """From here on it is led in this term, by this leader."""
        self.term, self.led = term, led
        self.epoch = term if led is None else Term(max(led.epoch, term))

    def hear_of_listeners(self, told: Iterable[StoredListener]) -> None:
        """Those of all nodes but the leader, who has said its own."""
        led = self.led
        self.listeners = {} if led is None else {led.node_id: led.listeners}
        for node_id, name, host, port in told:
            if led is None or node_id != led.node_id:
                known = self.listeners.get(node_id, ())
                self.listeners[node_id] = (*known, (name, host, port))

    def _before_partition(self, partition: Partition) -> None:
        """It is about to change."""
        if self.capture is not None:
            self.capture.before_partition(partition)

    def _before_topic(self, name: str) -> None:
        number = self._topic_numbers.get(name)
        if self.capture is not None and number is not None:
            self.capture.before_topic(number, name)

    def _settle(self, fact: facts.Settled) -> None:
        volumes = self.volumes
        is_there = bool(fact.replaced) and fact.replaced[0] in volumes
        first = volumes.index(fact.replaced[0]) if is_there else len(volumes)
        stop = first + len(fact.replaced)
        if tuple(volumes[first:stop]) != fact.replaced:
            raise CorruptJournal(f"volumes {fact.replaced} are replaced that are not there")
        volumes[first:stop] = fact.added
        for number in fact.replaced:
            self.volume_names.pop(number, None)
        self.volume_names.update(zip(fact.added, fact.names, strict=False))
        self.settled_end = Position(fact.end)
        self.next_volume = max(self.next_volume, *(number + 1 for number in fact.added), 0)

    def _adopt_compacted(self, fact: facts.Compacted) -> None:
        for number, end, byte_count in fact.parts:
            partition = self._numbered(number)
            self._before_partition(partition)
            self._forget_compacted(number)
            self.compacted[number] = CompactedPart(Offset(end), fact.volume, byte_count)
            if partition.transactions.aborted_before is not None:
                # The volume has those that are left, and of the others the markers may be gone.
                partition.transactions.aborted_before.forget_before(Offset(end))
        byte_count = sum(byte_count for _, _, byte_count in fact.parts)
        if byte_count:
            self.compacted_volumes[fact.volume] = self.compacted_live_bytes[fact.volume] = (
                byte_count
            )
            if fact.name:
                self.volume_names[fact.volume] = fact.name
        self.next_volume = max(self.next_volume, fact.volume + 1)

    def _forget_compacted(self, number: int) -> None:
        """What was left of a partition is needed no more."""
        part = self.compacted.pop(number, None)
        if part is None or not part.byte_count:
            return
        self.compacted_live_bytes[part.volume] -= part.byte_count
        if not self.compacted_live_bytes[part.volume]:
            del self.compacted_live_bytes[part.volume]
            del self.compacted_volumes[part.volume]
            self.volume_names.pop(part.volume, None)

    def named_volumes(self) -> set[int]:
        """The numbers of all volumes that the state needs."""
        return {*self.volumes, *self.compacted_volumes}

    def forget_volumes(self) -> None:
        """For a copy of the state, whose new journal holds all that lives: nothing of that is
        settled."""
        self.volumes = []
        self.settled_end = Position(0)
        self.compacted = {}
        self.compacted_volumes = {}
        self.compacted_live_bytes = {}
        self.volume_names = {}

    # Topics and partitions

    def know_topic(self, name: str, topic_id: bytes, partition_count: int) -> None:
        if name not in self._topic_numbers:
            self._topic_numbers[name] = self.topic_arrivals.add(name)
        self.topic_ids[name] = topic_id
        self.partition_counts[name] = partition_count

    def _host_from(self, name: str, first_index: int, first_number: int) -> None:
        """Those of a topic from `first_index` on that its catalogue places in this lane."""
        topic = self.catalogue.named(name)
        self.partition_counts[name] = topic.partition_count
        indexes = topic.indexes_in(self.lane_number, first_index)
        self.host(name, indexes, first_number)

    def host(self, topic: str, indexes: Sequence[int], first_number: int) -> None:
        self.hosting.host(topic, indexes, first_number)
        learn = None
        if topic == OFFSETS_TOPIC:
            learn = self._learn_of_groups
        elif topic == TRANSACTIONS_TOPIC:
            learn = self._learn_of_transactions
        if learn is not None:
            numbers = range(first_number, first_number + len(indexes))
            self._coordinated.update(dict.fromkeys(numbers, learn))

    def _numbered(self, number: int) -> Partition:
        partition = self.hosting.numbered(number)
        if partition is None:
            raise CorruptJournal(f"it names partition {number}, which is not there")
        return partition

    def _delete_topic(self, fact: facts.TopicDeleted) -> list[Partition]:
        self._before_topic(fact.name)
        if fact.name in self.catalogue:
            self.catalogue.apply(fact)
        topic_number = self._topic_numbers.pop(fact.name, None)
        if topic_number is not None:
            self.topic_arrivals.remove(topic_number)
            del self.partition_counts[fact.name]
            del self.topic_ids[fact.name]
        if fact.name in INTERNAL_TOPICS:
            for each in self.hosting.ranges(fact.name):
                for number in each.numbers:
                    del self._coordinated[number]
        self.joined.forget_topic(fact.name)
        gone = self.hosting.drop(fact.name)
        if self.capture is not None:
            for partition in gone:
                self.capture.before_drop(partition)
        if self.compacted:
            for partition in gone:
                self._forget_compacted(partition.number)
        return gone


def _wrong_offset(partition: Partition, batch: BatchEntry, end: Offset) -> CorruptJournal:
    return CorruptJournal(
        f"batch with offset {batch.base_offset} of {partition.topic_partition}, "
        f"whose log ends at {end}"
    )
