"""Steps of the groups: their records become batches of `__consumer_offsets` in one frame."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from semel.groups import records as group_records
from semel.groups.commands import CommitOffsets, CommitReply, Step, Ticket
from semel.groups.records import GroupRecord
from semel.groups.room import RECORD_BYTES_MIN
from semel.lane.claims import Claim
from semel.lane.commands import Environment, InternalTopic, internal_partition_count
from semel.lane.frame import Frame
from semel.lane.state import LaneState
from semel.lane.transactions import BATCH_OVERHEAD, add_transaction
from semel.records.records import Record, encode_batch
from semel.transactions.commands import WriteOffsets
from semel.types import NO_SEQUENCE, OFFSETS_TOPIC, TransactionalId
from semel.world import Moment

if TYPE_CHECKING:
    from semel.lane.lane import Lane

RECORDS_SIZE_MAX: Final = 2**20
"""Bytes. Records of a partition that share a batch, so that readers need not take all at once."""


def add_group_batches(
    state: LaneState, environment: Environment, frame: Frame, records: Sequence[GroupRecord]
) -> None:
    """The records as batches of the partitions of `__consumer_offsets` that hold their groups."""
    if not records:
        return
    topic = InternalTopic(state, OFFSETS_TOPIC, environment, frame)
    waiting: dict[int, list[Record]] = defaultdict(list)
    learned: dict[int, list[GroupRecord]] = defaultdict(list)
    sizes: dict[int, int] = defaultdict(int)

    def add(index: int) -> None:
        batch = encode_batch(waiting.pop(index))
        topic.add(index, state.term, batch, tuple(learned.pop(index)))

    for record in records:
        key, value = group_records.encode(record)
        index = topic.index_for(record.group_id)
        waiting[index].append(Record(key, value, frame.at.wall_ms))
        learned[index].append(record)
        sizes[index] += len(key) + len(value or b"")
        if sizes[index] >= RECORDS_SIZE_MAX:
            add(index)
            del sizes[index]
    for index in list(waiting):
        add(index)


def take_group_step(
    lane: "Lane", decide: Callable[[Moment], Step], size_max: int, claim: Claim = Claim.ORDINARY
) -> Step:
    """Decide at the present time, append what was decided, apply it, all in one step.

    `size_max` bounds the bytes of the records that the decision may lead to. Raises JournalFull
    before anything is decided.
    """
    at = lane.clock.moment()
    if size_max == 0:
        # A heartbeat needs no room, and must be answered also when the disk is full: sessions
        # would end otherwise.
        step = decide(at)
        assert not step.records, "a step that writes nothing has records"
        return step
    overhead = _overhead(lane, size_max)
    lane.make_room(size_max + overhead, claim)
    step = decide(at)
    frame = Frame(at)
    add_group_batches(lane.state, lane.environment, frame, step.records)
    if frame.entries:
        lane.append(frame, claim)
    return step


def records_room(lane: "Lane", claim: Claim) -> int:
    """A `size_max` for which there is room now."""
    left = lane.room(claim)
    return max(0, left - _overhead(lane, left))


def _overhead(lane: "Lane", records_size: int) -> int:
    """Bytes that batches of these many bytes of records take beside them."""
    partition_count = internal_partition_count(lane.state, OFFSETS_TOPIC, lane.environment)
    batch_count_max = min(records_size // RECORD_BYTES_MIN, partition_count)
    topic = 200
    return BATCH_OVERHEAD * (batch_count_max + records_size // RECORDS_SIZE_MAX) + topic


_OWN = Ticket(0)
"""The reply is there at once, so that one ticket serves all."""


def take_offsets_step(
    lane: "Lane",
    transactional_id: TransactionalId,
    joining: WriteOffsets,
    command: CommitOffsets,
) -> CommitReply:
    """Decide for the transaction and for the group, append and apply in one step.

    Raises the transaction's refusal or JournalFull; the group's refusals are in the reply.
    """
    at = lane.clock.moment()
    state = lane.state
    frame = Frame(at)
    current = state.transactions.get(transactional_id)
    _, owed_change = add_transaction(state, lane.environment, frame, current, joining)
    decided = state.groups.commit_offsets_in_transaction(command, _OWN, at)
    if decided.records:
        topic = InternalTopic(state, OFFSETS_TOPIC, lane.environment, frame)
        records = [Record(*group_records.encode(record), at.wall_ms) for record in decided.records]
        batch = encode_batch(
            records,
            producer_id=joining.producer_id,
            producer_epoch=joining.producer_epoch,
            base_sequence=NO_SEQUENCE,
            is_transactional=True,
        )
        topic.add(joining.partition_index, state.term, batch, decided.records)
        lane.append(frame, Claim.ORDINARY, owed_change)
    ((_, reply),) = decided.replies
    assert isinstance(reply, CommitReply)
    return reply
