"""Steps of transactions: what the coordinator decides becomes one frame.

The values go to `__transaction_state`, the markers to every partition that took part, pending
offsets become final or vanish; all in the frame that also carries whatever led to the decision.
One frame, one sync: when the client hears of it, it is done.
"""

from typing import TYPE_CHECKING, Final

from semel.errors import TransactionAbortable
from semel.journal.frames import HEADER_SIZE as FRAME_HEADER_SIZE
from semel.lane import facts, frame
from semel.lane.claims import Claim
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

BATCH_OVERHEAD: Final = frame.ENTRY_SIZE + record_batch.HEADER_SIZE
"""Bytes. What a batch takes in a frame beside its records."""

MARKER_SIZE: Final = frame.ENTRY_SIZE + len(
    encode_marker(Marker(MarkerType.ABORT, 0, 0, 0, 0, 0), leader_epoch=0)
)
"""Bytes of a marker in a frame; all its numbers have a fixed size."""

PARTITION_SIZE: Final = MARKER_SIZE + 4
"""Bytes. A partition in the end of its transaction: its marker, and its index in the value."""

TOPIC_OVERHEAD: Final = 16
"""Bytes. What a topic takes in the value of a transaction beside its name and its indexes."""

VALUE_SIZE_MAX: Final = 192
"""Bytes of the record of a value without the transactional id, topics and partitions."""

ENDING_VALUES_MAX: Final = 3
"""Prepared, completed and, if a new incarnation ends it, empty again."""

ENDING_OVERHEAD: Final = (
    FRAME_HEADER_SIZE
    + frame.HEAD_SIZE
    + facts.size_in_frame(facts.ProducerIdTaken(2**63 - 1))
    + BATCH_OVERHEAD
    + ENDING_VALUES_MAX * VALUE_SIZE_MAX
)


class TransactionTooWide(TransactionAbortable):
    """It could not be ended in one frame, and so not be atomic. Abort it, and begin a smaller one.

    Said so in both dialects, as the epoch may be used again.
    """


def ending_size(value: Transaction) -> int:
    """Bytes that the frame which ends this transaction takes at most, however it ends."""
    topics = {topic for topic, _ in value.partitions}
    return (
        ENDING_OVERHEAD
        + ENDING_VALUES_MAX * len(value.transactional_id.encode())
        + sum(map(len, topics))
        + TOPIC_OVERHEAD * len(topics)
        + PARTITION_SIZE * len(value.partitions)
    )


class TransactionStep:
    """A decision and the bytes it takes, before anything has changed."""

    __slots__ = ("_batch", "_facts", "_lane", "decision", "owed_change", "owed_size", "size")

    def __init__(self, lane: "Lane", decision: Decision, at: Moment) -> None:
        self._lane = lane
        self.decision = decision
        self._facts: list[facts.AnyFact] = []
        self._batch = b""
        self.size = 0
        self.owed_size = 0
        """Bytes that the end of the transaction takes, if it is open then."""
        self.owed_change = 0
        """What that adds to what was owed for it before."""
        if not decision.values:
            return
        if decision.taken_producer_id is not None:
            self._facts.append(facts.ProducerIdTaken(decision.taken_producer_id))
        if TRANSACTIONS_TOPIC not in lane.state.topics:
            self._facts.append(creation(lane, TRANSACTIONS_TOPIC))
        self._batch = encode_batch(
            [Record(*transaction_records.encode(value), at.wall_ms) for value in decision.values]
        )
        marker_count = len(decision.markers.partitions) if decision.markers else 0
        self.size = (
            facts.size_in_frame(*self._facts)
            + marker_count * MARKER_SIZE
            + frame.ENTRY_SIZE
            + len(self._batch)
        )
        newest = decision.values[-1]
        self.owed_size = ending_size(newest) if newest.is_open else 0
        owed_before = lane.state.transactions.owed_by(newest.transactional_id)
        self.owed_change = self.owed_size - owed_before

    def add_to(self, draft: "Draft") -> None:
        """Apply it, as part of the draft's frame."""
        decision = self.decision
        for fact in self._facts:
            draft.add_fact(fact)
        if decision.markers is not None:
            _add_markers(self._lane, draft, decision.markers)
        if not decision.values:
            return
        topic = self._lane.state.topics[TRANSACTIONS_TOPIC]
        transactional_id = decision.values[-1].transactional_id
        partition = topic.partitions[partition_for(transactional_id, len(topic.partitions))]
        batch = memoryview(self._batch)
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
    step = TransactionStep(lane, decide(current, command, context(lane, at)), at)
    if step.owed_change > 0:
        _check_width(lane, step)
    return step


def _check_width(lane: "Lane", step: TransactionStep) -> None:
    settings = lane.journal.settings
    # The other half is for a batch in the frame by which a partition joins.
    size_max = settings.payload_bytes_max // 2
    if step.owed_size > size_max:
        value = step.decision.values[-1]
        raise TransactionTooWide(
            f"the transaction of {value.transactional_id!r} would have {len(value.partitions)} "
            f"partitions and take {step.owed_size} bytes to be ended at once; "
            f"journal.segment.bytes={settings.segment_bytes} allows {size_max}"
        )


def take_transaction_step(
    lane: "Lane",
    transactional_id: TransactionalId,
    command: Command,
    claim: Claim = Claim.ORDINARY,
) -> tuple[Decision, Position]:
    """Decide, append and apply in one step.

    If it ends an open transaction, the room for it is owed, whatever it claims otherwise. Raises a
    refusal or JournalFull, and then nothing has changed.
    """
    at = lane.clock.moment()
    current = lane.state.transactions.get(transactional_id)
    step = prepare(lane, current, command, at)
    if not step.decision.values:
        return step.decision, lane.journal.end
    if current is not None and current.is_open and not step.decision.values[-1].is_open:
        claim = Claim.OWED
    draft = lane.draft(step.size, claim, owed_change=step.owed_change, at=at)
    step.add_to(draft)
    return step.decision, draft.append()


def abort_hanging(
    lane: "Lane", partition: Partition, producer_id: ProducerId, epoch: ProducerEpoch
) -> Position:
    """Abort what is open in one partition although no transactional id knows of it."""
    draft = lane.draft(MARKER_SIZE, Claim.ENDING)
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
