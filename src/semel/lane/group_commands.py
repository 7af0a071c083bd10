"""Commands about groups: their records become batches of `__consumer_offsets` in one frame."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from semel.groups import commands as groups
from semel.groups import records as group_records
from semel.groups.commands import UNASKED, CommitOffsets, CommitReply, Ticket
from semel.groups.deciding import GroupDecision
from semel.groups.joining import generation_of_one
from semel.groups.records import GroupRecord
from semel.lane.commands import Claim, Decided, Environment, InternalTopic
from semel.lane.frame import ENTRY_SIZE, HEAD_SIZE, Frame
from semel.lane.state import LaneState
from semel.lane.transactions import add_transaction
from semel.records.records import Record, encode_batch
from semel.transactions.commands import WriteOffsets
from semel.types import NO_SEQUENCE, OFFSETS_TOPIC, TransactionalId
from semel.world import Moment

RECORDS_SIZE_MAX: Final = 2**20
"""Bytes. Records of a partition that share a batch, so that readers need not take all at once."""

_ENDING: Final = (
    groups.Leave,
    groups.DeleteGroups,
    groups.DeleteOffsets,
    groups.ForgetTicket,
    groups.ForgetIds,
    groups.Expire,
)
"""Commands that leave less behind than there was."""


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
        topic.add(index, state.epoch, batch, tuple(learned.pop(index)))

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


class AskGroups(NamedTuple):
    """A command to the coordinator of groups. The reply holds the replies to this request and to
    others that have waited for it.

    What writes nothing needs no room: a heartbeat must be answered also when the disk is full, as
    sessions would end otherwise.
    """

    command: groups.Command
    ticket: Ticket = UNASKED

    def decide(
        self, state: LaneState, at: Moment, environment: Environment
    ) -> Decided[GroupDecision]:
        decided = state.groups.decide(self.command, self.ticket, at)
        claim = Claim.ENDING if isinstance(self.command, _ENDING) else Claim.ORDINARY
        frame = None
        room_needed = 0
        if decided.records:
            frame = Frame(at)
            add_group_batches(state, environment, frame, decided.records)
        elif decided.volatile and isinstance(self.command, groups.Join):
            # It begins what only a record can complete. Where not even this member alone could
            # be recorded, its joining would take from the others what they have for nothing.
            least = group_records.size_alone(generation_of_one(self.command))
            room_needed = HEAD_SIZE + ENTRY_SIZE + least
        return Decided(decided, frame, claim, volatile=decided, room_needed=room_needed)


def offsets_batch(written: WriteOffsets, records: Sequence[GroupRecord], at: Moment) -> bytes:
    """Offsets that are pending until the transaction of this producer ends."""
    return encode_batch(
        [Record(*group_records.encode(record), at.wall_ms) for record in records],
        producer_id=written.producer_id,
        producer_epoch=written.producer_epoch,
        base_sequence=NO_SEQUENCE,
        is_transactional=True,
    )


class CommitOffsetsInTransaction(NamedTuple):
    """The group joins the transaction in the frame of its offsets.

    Raises the transaction's refusal; the group's refusals are in the reply.
    """

    transactional_id: TransactionalId
    joining: WriteOffsets
    command: CommitOffsets

    def decide(
        self, state: LaneState, at: Moment, environment: Environment
    ) -> Decided[CommitReply]:
        assert self.command.in_transaction
        frame = Frame(at)
        joining = self.joining
        current = state.transactions.get(self.transactional_id)
        _, owed_change = add_transaction(state, environment, frame, current, joining)
        decided = state.groups.decide(self.command, UNASKED, at)
        ((_, reply),) = decided.replies
        assert isinstance(reply, CommitReply)
        if not decided.records:
            return Decided(reply, volatile=decided)
        batch = offsets_batch(joining, decided.records, at)
        topic = InternalTopic(state, OFFSETS_TOPIC, environment, frame)
        topic.add(joining.partition_index, state.epoch, batch, decided.records)
        return Decided(reply, frame, owed_change=owed_change, volatile=decided)
