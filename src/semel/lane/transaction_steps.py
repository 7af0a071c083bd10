"""Steps of transactions: what the coordinator decides becomes one frame.

The values go to `__transaction_state`, the markers to every partition that took part, pending
offsets become final or vanish; all in the frame that also carries whatever led to the decision.
One frame, one sync: when the client hears of it, it is done.
"""

from typing import TYPE_CHECKING, Final

from semel.lane import facts, frame
from semel.lane.internal_topics import creation
from semel.log.partition import Partition
from semel.records import batch as record_batch
from semel.records.control import Marker, MarkerType, encode_marker
from semel.records.partitioning import partition_for
from semel.records.records import Record, encode_batch
from semel.transactions import records as transaction_records
from semel.transactions.commands import (
    Command,
    Context,
    Decision,
    Markers,
    RaiseTerm,
)
from semel.transactions.coordinator import decide
from semel.transactions.transaction import Transaction
from semel.types import (
    TRANSACTIONS_TOPIC,
    Position,
    ProducerEpoch,
    ProducerId,
    Term,
    TransactionalId,
)
from semel.world import Moment

if TYPE_CHECKING:
    from semel.lane.draft import Draft
    from semel.lane.lane import Lane

MARKER_SIZE_MAX: Final = frame.ENTRY_SIZE + 96
"""Bytes of one marker with its entry."""

OVERHEAD: Final = 1024
"""Bytes. The header of the batch of values, and facts beside it."""


class TransactionStep:
    """A decision and the bytes it takes, before anything has changed."""

    __slots__ = ("_lane", "_records", "decision", "size")

    def __init__(self, lane: "Lane", decision: Decision, at: Moment) -> None:
        self._lane = lane
        self.decision = decision
        self._records = [
            Record(*transaction_records.encode(value), at.wall_ms) for value in decision.values
        ]
        marker_count = len(decision.markers.partitions) if decision.markers else 0
        value_size = sum(
            len(key or b"") + len(value or b"") + 32 for key, value, *_ in self._records
        )
        self.size = OVERHEAD + value_size + marker_count * MARKER_SIZE_MAX

    def add_to(self, draft: "Draft") -> None:
        """Apply it, as part of the draft's frame."""
        decision = self.decision
        if decision.taken_producer_id is not None:
            draft.add_fact(facts.ProducerIdTaken(decision.taken_producer_id))
        if decision.markers is not None:
            _add_markers(self._lane, draft, decision.markers)
        if not decision.values:
            return
        topics = self._lane.state.topics
        if TRANSACTIONS_TOPIC not in topics:
            draft.add_fact(creation(self._lane, TRANSACTIONS_TOPIC))
        topic = topics[TRANSACTIONS_TOPIC]
        transactional_id = decision.values[-1].transactional_id
        partition = topic.partitions[partition_for(transactional_id, len(topic.partitions))]
        batch = memoryview(encode_batch(self._records))
        header = record_batch.read(batch)
        draft.add_batch(partition, header, header.checksum, batch)
        for value in decision.values:
            self._lane.state.transactions.apply(value, draft.at.now_ms)


def context(lane: "Lane", at: Moment, term: Term | None = None) -> Context:
    return Context(
        at.wall_ms,
        lane.state.term if term is None else term,
        lane.state.next_producer_id,
        lane.settings.transactions,
    )


def prepare(
    lane: "Lane", current: Transaction | None, command: Command, at: Moment
) -> TransactionStep:
    """Decide, changing nothing. Raises a refusal."""
    return TransactionStep(lane, decide(current, command, context(lane, at)), at)


def take_transaction_step(
    lane: "Lane", transactional_id: TransactionalId, command: Command, *, urgent: bool
) -> tuple[Decision, Position]:
    """Decide, append and apply in one step.

    Raises a refusal or JournalFull, and then nothing has changed.
    """
    at = lane.clock.moment()
    current = lane.state.transactions.get(transactional_id)
    step = prepare(lane, current, command, at)
    if not step.decision.values:
        return step.decision, lane.journal.end
    draft = lane.draft(step.size, urgent=urgent, at=at)
    step.add_to(draft)
    return step.decision, draft.append()


def abort_hanging(
    lane: "Lane", partition: Partition, producer_id: ProducerId, epoch: ProducerEpoch
) -> Position:
    """Abort what is open in one partition although no transactional id knows of it."""
    draft = lane.draft(OVERHEAD, urgent=True)
    markers = Markers(producer_id, epoch, False, (partition.topic_partition,))
    _add_markers(lane, draft, markers)
    return draft.append()


def term_aborts(lane: "Lane", term: Term, at: Moment) -> list[TransactionStep]:
    """The ends of all transactions that are open when the term rises."""
    raised = context(lane, at, term)
    return [
        TransactionStep(lane, decide(current, RaiseTerm(), raised), at)
        for current in lane.state.transactions.open()
    ]


def _add_markers(lane: "Lane", draft: "Draft", markers: Markers) -> None:
    kind = MarkerType.COMMIT if markers.commit else MarkerType.ABORT
    # Offset and leader epoch lie outside the checksum, so that one batch serves all partitions.
    batch = memoryview(
        encode_marker(
            Marker(
                kind,
                0,
                markers.producer_id,
                markers.producer_epoch,
                lane.state.term,
                draft.at.wall_ms,
            ),
            leader_epoch=lane.state.term,
        )
    )
    header = record_batch.read(batch)
    for topic_name, index in markers.partitions:
        topic = lane.state.topics.get(topic_name)
        partition = topic.partition(index) if topic is not None else None
        if partition is not None:
            draft.add_marker(partition, header, batch, committed=markers.commit)
    if markers.settle_offsets:
        lane.state.groups.apply_marker(markers.producer_id, markers.commit)
