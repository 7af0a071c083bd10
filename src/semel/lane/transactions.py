"""Commands about transactions: what the coordinator decides becomes part of a frame.

The values go to `__transaction_state`, the markers to every partition that took part, pending
offsets become final or vanish; all in the frame that also carries whatever led to the decision.
One frame, one sync: when the client hears of it, it is done.
"""

from typing import Final, NamedTuple

from semel.errors import TransactionAbortable
from semel.journal.frames import HEADER_SIZE as FRAME_HEADER_SIZE
from semel.lane import facts
from semel.lane.commands import Claim, Decided, Environment, InternalTopic
from semel.lane.frame import ENTRY_SIZE, HEAD_SIZE, Frame
from semel.lane.joined import JoinedTransaction
from semel.lane.state import LaneState
from semel.records import batch as record_batch
from semel.records.control import Marker, MarkerType, encode_marker
from semel.records.records import Record, encode_batch
from semel.transactions import records as transaction_records
from semel.transactions.commands import Command, Context, Decision, Markers
from semel.transactions.coordinator import complete_at_once, decide
from semel.transactions.key import TransactionKey
from semel.transactions.participants import participants
from semel.transactions.transaction import Status, Transaction
from semel.types import (
    EPOCH_MAX,
    TRANSACTIONS_TOPIC,
    ProducerEpoch,
    ProducerId,
    Term,
    TopicPartition,
    TransactionalId,
)
from semel.world import Moment

BATCH_OVERHEAD: Final = ENTRY_SIZE + record_batch.HEADER_SIZE
"""Bytes. What a batch takes in a frame beside its records."""

MARKER_SIZE: Final = ENTRY_SIZE + len(
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
    + HEAD_SIZE
    + ENTRY_SIZE
    + len(facts.encode(facts.ProducerIdTaken(2**63 - 1)))
    + BATCH_OVERHEAD
    + ENDING_VALUES_MAX * VALUE_SIZE_MAX
)


_LARGEST_KEY: Final = TransactionKey(
    2**31 - 1, Term(2**31 - 1), ProducerId(2**63 - 1), EPOCH_MAX, 2**63 - 1
)

DECIDED_SIZE: Final = ENTRY_SIZE + len(
    facts.encode(facts.Decided(_LARGEST_KEY, True, EPOCH_MAX, 2**31 - 1, ()))
)
"""Bytes. How a transaction over lanes has ended, without the lanes."""

LANE_SIZE: Final = 2 * 8 + 11
"""Bytes of a lane in each of the values, and of what is said of it when it is decided."""

ENDED_SIZE: Final = (
    FRAME_HEADER_SIZE + HEAD_SIZE + ENTRY_SIZE + len(facts.encode(facts.Ended(_LARGEST_KEY, True)))
)
"""Bytes of the frame by which another lane's transaction ends here, without its markers."""

PREPARED_SIZE: Final = (
    FRAME_HEADER_SIZE
    + HEAD_SIZE
    + ENTRY_SIZE
    + len(facts.encode(facts.Prepared(_LARGEST_KEY, "")))
    + 5
)
"""Bytes, without the transactional id."""


class TransactionTooWide(TransactionAbortable):
    """It could not be ended in one frame, and so not be atomic. Abort it, and begin a smaller one.

    Said so in both dialects, as the epoch may be used again.
    """


def ending_size(value: Transaction) -> int:
    """Bytes that the frame which ends this transaction takes at most, however it ends.

    It is owed from the moment a partition joins, when nobody knows yet how it will end.
    """
    taking_part = participants(value.partitions)
    lanes_size = DECIDED_SIZE + LANE_SIZE * len(value.lanes) if value.lanes else 0
    return (
        ENDING_OVERHEAD
        + lanes_size
        + ENDING_VALUES_MAX * len(value.transactional_id.encode())
        + taking_part.names_size
        + TOPIC_OVERHEAD * taking_part.topic_count
        + PARTITION_SIZE * len(taking_part)
    )


def joined_ending_size(joined: JoinedTransaction) -> int:
    """As `ending_size`, in a lane that another's transaction takes part in."""
    prepared_size = 0
    if not joined.is_prepared:
        prepared_size = PREPARED_SIZE + len(joined.transactional_id.encode())
    return prepared_size + ENDED_SIZE + MARKER_SIZE * len(joined.partitions)


def add_transaction(
    state: LaneState,
    environment: Environment,
    frame: Frame,
    current: Transaction | None,
    command: Command,
    term: Term | None = None,
) -> tuple[Decision, int]:
    """Decide, and put what was decided into the frame. Raises a refusal.

    With what it adds to the bytes that open transactions take to be ended.

    `term` is one that the frame itself begins, which is the epoch as well.
    """
    its_term = state.term if term is None else term
    epoch = state.epoch if term is None else term
    has_unheard_abort = (
        bool(state.joined.decided)
        and current is not None
        and state.joined.has_unheard_abort(current.producer_id)
    )
    context = Context(
        frame.at.wall_ms,
        its_term,
        state.next_producer_id,
        environment.settings.transactions,
        state.lane_number,
        has_unheard_abort,
    )
    decision = decide(current, command, context)
    if not decision.values:
        return decision, 0
    newest = decision.values[-1]
    markers = decision.markers
    if newest.is_prepared:
        if newest.status is Status.PREPARE_COMMIT and newest.joined_lanes:
            # Each of them has to say first that it has all that was written there.
            markers = None
        else:
            # Prepare and complete are one frame then, and one sync.
            decision = complete_at_once(decision, context)
            newest = decision.values[-1]
    owed_size = ending_size(newest) if newest.is_open else 0
    owed_change = owed_size - state.transactions.owed_by(newest.transactional_id)
    if owed_change > 0:
        _check_width(newest, owed_size, environment)
    if decision.taken_producer_id is not None:
        frame.add_fact(facts.ProducerIdTaken(decision.taken_producer_id))
    topic = InternalTopic(state, TRANSACTIONS_TOPIC, environment, frame)
    if markers is not None:
        if current is not None and current.lanes:
            markers = _markers_here(state, markers)
        add_markers(state, frame, markers, epoch)
    batch = encode_batch(
        [Record(*transaction_records.encode(value), frame.at.wall_ms) for value in decision.values]
    )
    topic.add(topic.index_for(newest.transactional_id), epoch, batch, decision.values)
    if current is not None and current.lanes and not newest.is_open:
        _add_decided(frame, current, decision, its_term)
    return decision, owed_change


def _markers_here(state: LaneState, markers: Markers) -> Markers:
    """The others are for their own lanes to write."""
    here = tuple(each for each in markers.partitions if state.partition(*each) is not None)
    return markers._replace(partitions=here)


def committed(prepared: Transaction, term: Term) -> facts.Decided:
    """Who has to be told of this, which every lane has voted for."""
    assert prepared.key is not None
    told = tuple((each.lane, int(each.term)) for each in prepared.joined_lanes)
    return facts.Decided(prepared.key, True, prepared.producer_epoch, term, told)


def _add_decided(frame: Frame, before: Transaction, decision: Decision, term: Term) -> None:
    """Who has to be told how a transaction over lanes has ended: of an abort also the lanes of
    partitions that were only added, as a write may be under way to them."""
    commit = decision.values[-1].status is Status.COMPLETE_COMMIT
    lanes = before.joined_lanes if commit else before.lanes
    if not lanes:
        return
    assert before.key is not None
    prepared = next((each for each in decision.values if each.is_prepared), before)
    epoch = prepared.producer_epoch
    told = tuple((each.lane, int(each.term)) for each in lanes)
    frame.add_fact(facts.Decided(before.key, commit, epoch, term, told))


def _check_width(value: Transaction, owed_size: int, environment: Environment) -> None:
    # The other half is for a batch in the frame by which a partition joins.
    limits = environment.limits
    size_max = limits.payload_bytes_max // 2
    if owed_size > size_max:
        raise TransactionTooWide(
            f"the transaction of {value.transactional_id!r} would have {len(value.partitions)} "
            f"partitions and take {owed_size} bytes to be ended at once; "
            f"{limits.setting} allows {size_max}"
        )


def add_markers(state: LaneState, frame: Frame, markers: Markers, epoch: Term) -> None:
    """In the partitions that they name, which this lane leads in `epoch`."""
    marker = Marker(
        MarkerType.COMMIT if markers.commit else MarkerType.ABORT,
        0,
        markers.producer_id,
        markers.producer_epoch,
        markers.coordinator_epoch,
        frame.at.wall_ms,
    )
    # Offset and leader epoch lie outside the checksum, so that one batch serves all partitions.
    batch = memoryview(encode_marker(marker, leader_epoch=epoch))
    header = record_batch.read(batch)
    # One transaction names each of its partitions once.
    is_alone = not frame.batches
    partition_of = state.hosting.partition
    for topic, index in markers.partitions:
        partition = partition_of(topic, index)
        assert partition is not None, f"a marker for {topic}-{index}, which is not there"
        number, base_offset = partition.number, partition.log_end_offset
        if not is_alone:
            base_offset = frame.next_offset(number, base_offset)
        frame.add_batch(number, base_offset, epoch, header, header.checksum, batch, marker)


class Transact:
    """A command to the coordinator of this transactional id.

    If it ends an open transaction, the room for it is owed, whatever it claims otherwise.
    """

    __slots__ = ("_claim", "command", "transactional_id")

    def __init__(
        self, transactional_id: TransactionalId, command: Command, claim: Claim = Claim.ORDINARY
    ) -> None:
        self.transactional_id = transactional_id
        self.command = command
        self._claim = claim

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[Decision]:
        frame = Frame(at)
        current = state.transactions.get(self.transactional_id)
        decision, owed_change = add_transaction(state, environment, frame, current, self.command)
        ends = current is not None and current.is_open
        if ends and decision.values and not decision.values[-1].is_open:
            return Decided(decision, frame, Claim.OWED, owed_change)
        return Decided(decision, frame, self._claim, owed_change)


class AbortHanging(NamedTuple):
    """Abort what is open in one partition although no transactional id knows of it."""

    partition: TopicPartition
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: Term

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        frame = Frame(at)
        named = (self.partition,)
        markers = Markers(
            self.producer_id, self.producer_epoch, False, named, self.coordinator_epoch
        )
        add_markers(state, frame, markers, state.epoch)
        return Decided(None, frame, Claim.ENDING)
