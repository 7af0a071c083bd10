"""From the pieces of a snapshot, or one of an earlier format, back to the lane's state."""

import struct
from collections.abc import Iterator
from typing import Final

import msgspec

from semel.access.quotas import Entity
from semel.access.rules import Rule
from semel.access.scram import Credential, Mechanism
from semel.errors import CorruptJournal, NewerFormat
from semel.groups.lasting import GroupsSnapshot
from semel.lane import facts
from semel.lane.catalogue import Topic
from semel.lane.snapshot_format import (
    FORMAT,
    FORMAT_OF_LANES,
    FORMAT_OF_ONE_LANE,
    SIZE,
    BrokerConfigsPiece,
    CompactedPiece,
    GroupsPiece,
    JoinedPiece,
    LanePiece,
    PartitionSnapshot,
    PartitionsPiece,
    Piece,
    ProducerSnapshot,
    ProducersPiece,
    QuotasPiece,
    RulesPiece,
    Stored,
    TopicSnapshot,
    TopicsPiece,
    TransactionsPiece,
    UsersPiece,
    decode_piece,
)
from semel.lane.state import CompactedPart, LaneState
from semel.log.partition import Partition
from semel.log.producers import Producer
from semel.transactions.transaction import TransactionsSnapshot
from semel.types import Offset, Position, ProducerEpoch, ProducerId, Term
from semel.world import Moment

FORMATS_OF_ONE_PIECE: Final = (1, 2, 3)
FORMATS_OF_PIECES: Final = (4, FORMAT_OF_ONE_LANE, FORMAT_OF_LANES, FORMAT)
_ONE_PIECE_MIN: Final = 0x80
"""The first byte of a list in MessagePack; numbers of formats are lower."""


def restore(stored: bytes, state: LaneState) -> None:
    """Give a state that nothing was applied to yet what the snapshot holds."""
    if not stored:
        raise CorruptJournal(
            "the checkpoint is empty, as that of a copy that is not whole: it has to be copied anew"
        )
    try:
        is_one = stored[0] >= _ONE_PIECE_MIN
        _restore(_pieces_of_one(stored) if is_one else _pieces(stored), state)
    except (msgspec.MsgspecError, struct.error, KeyError, ValueError) as error:
        raise CorruptJournal(f"the checkpoint cannot be read: {error}") from error


def _pieces(stored: bytes) -> Iterator[Piece]:
    if stored[:1] not in (bytes([each]) for each in FORMATS_OF_PIECES):
        raise _unknown_format(stored[0] if stored else 0)
    view = memoryview(stored)
    at = 1
    while at < len(view):
        (size,) = SIZE.unpack_from(view, at)
        at += SIZE.size
        piece: Piece = decode_piece(view[at : at + size])
        yield piece
        at += size


def _restore(found: Iterator[Piece], state: LaneState) -> None:
    pieces = list(found)
    if not pieces or not isinstance(pieces[0], LanePiece):
        raise CorruptJournal("the checkpoint cannot be read: it lacks its first piece")
    _restore_lane(pieces[0], state)
    _restore_topics([piece for piece in pieces if isinstance(piece, TopicsPiece)], state)
    state.hosting.next_number = pieces[0].next_partition_number
    for piece in pieces:
        if isinstance(piece, BrokerConfigsPiece):
            state.broker_configs = piece.configs
        elif isinstance(piece, UsersPiece | RulesPiece | QuotasPiece):
            _restore_access(piece, state)
        elif isinstance(piece, JoinedPiece):
            state.joined.restore(piece.joined, piece.ended, piece.decided)
        if isinstance(piece, PartitionsPiece):
            for partition in piece.partitions:
                if partition.log_end_offset > 0:
                    _restore_partition(_numbered(state, partition.number), partition)
        elif isinstance(piece, ProducersPiece):
            _restore_producers(_numbered(state, piece.partition_number), piece.producers)
        elif isinstance(piece, CompactedPiece):
            state.compacted_volumes = dict(piece.volumes)
            for number, end, volume, byte_count in piece.parts:
                state.compacted[number] = CompactedPart(Offset(end), volume, byte_count)
                if byte_count:
                    live_bytes = state.compacted_live_bytes
                    live_bytes[volume] = live_bytes.get(volume, 0) + byte_count
    groups = [piece.groups for piece in pieces if isinstance(piece, GroupsPiece)]
    state.groups.restore(_groups_of(groups))
    values = [piece.transactions for piece in pieces if isinstance(piece, TransactionsPiece)]
    state.transactions.restore(_transactions_of(values))


def _restore_topics(pieces: list[TopicsPiece], state: LaneState) -> None:
    topics: dict[str, TopicSnapshot] = {}
    for piece in pieces:
        for topic in piece.topics:
            known = topics.setdefault(topic.name, topic)
            if known is not topic:
                known.partition_numbers.extend(topic.partition_numbers)
                if known.indexes is not None:
                    known.indexes.extend(topic.indexes or ())
    # Some were captured before their turn; numbers rise as partitions are made.
    for topic in sorted(topics.values(), key=lambda topic: topic.partition_numbers):
        numbers = topic.partition_numbers
        count = len(numbers) if topic.partition_count is None else topic.partition_count
        indexes = range(len(numbers)) if topic.indexes is None else topic.indexes
        state.know_topic(topic.name, topic.topic_id or topic.hosted_id, count)
        if topic.topic_id:
            lanes = (topic.first_lane, topic.lane_count)
            state.catalogue.add(Topic(topic.name, topic.topic_id, topic.config, count, *lanes))
        start = 0
        for end in _ends_of_neighbours(numbers):
            state.host(topic.name, indexes[start:end], numbers[start])
            start = end


def _ends_of_neighbours(numbers: list[int]) -> Iterator[int]:
    """Where in the list those end that follow each other without a gap."""
    for end in range(1, len(numbers) + 1):
        if end == len(numbers) or numbers[end] != numbers[end - 1] + 1:
            yield end


def _numbered(state: LaneState, number: int) -> Partition:
    partition = state.hosting.numbered(number)
    if partition is None:
        raise CorruptJournal(f"the checkpoint cannot be read: there is no partition {number}")
    return partition


def _restore_lane(lane: LanePiece, state: LaneState) -> None:
    led = None if lane.led is None else facts.Led(*lane.led, lane.listeners_of_leader)
    state.lead(Term(lane.term), led)
    state.cluster_id = lane.cluster_id
    state.next_producer_id = ProducerId(lane.next_producer_id)
    if lane.last_moment is not None:
        state.passed(Moment(*lane.last_moment))
    if lane.wall_ahead_ms is not None:
        state.wall_ahead_ms = lane.wall_ahead_ms
    state.volumes = list(lane.volumes)
    state.settled_end = Position(lane.settled_end)
    state.next_volume = lane.next_volume
    state.volume_names = dict(lane.volume_names)
    state.is_retention_enforced = lane.is_retention_enforced
    state.standing_by = lane.standing_by
    state.hear_of_listeners(lane.listeners_standing_by)
    state.level = lane.level
    state.lanes.restore(lane.lane_count, lane.placed, lane.taken)


def _restore_access(piece: UsersPiece | RulesPiece | QuotasPiece, state: LaneState) -> None:
    if isinstance(piece, QuotasPiece):
        for quotas in piece.quotas:
            state.quotas.tell(Entity(quotas.user, quotas.client_id, quotas.ip), quotas.values)
        return
    if isinstance(piece, RulesPiece):
        state.access_list.add(map(Rule.of_stored, piece.rules))
        return
    state.users.draw(piece.salt_key)
    for each in piece.credentials:
        keys = each.salt, each.stored_key, each.server_key
        credential = Credential(Mechanism(each.mechanism), each.iterations, *keys)
        state.users.set(each.user, credential)


def _restore_partition(partition: Partition, stored: PartitionSnapshot) -> None:
    partition.log_start_offset = Offset(stored.log_start_offset)
    partition.log_end_offset = Offset(stored.log_end_offset)
    partition.term_starts = stored.term_starts
    partition.transactions.restore(stored.transactions, partition.log_end_offset)
    _restore_producers(partition, stored.producers)


def _restore_producers(partition: Partition, stored: list[ProducerSnapshot]) -> None:
    for each in stored:
        partition.producers[each.producer_id] = Producer(
            ProducerEpoch(each.epoch),
            each.active_at_ms,
            each.taken,
            each.restart,
            each.transaction_start,
        )


def _groups_of(pieces: list[GroupsSnapshot]) -> GroupsSnapshot:
    if len(pieces) == 1:
        return pieces[0]
    return GroupsSnapshot(
        tuple(generation for piece in pieces for generation in piece.generations),
        tuple(offset for piece in pieces for offset in piece.offsets),
        max((piece.order for piece in pieces), default=0),
        tuple(ms for piece in pieces for ms in piece.generations_ms or ()),
    )


def _transactions_of(pieces: list[TransactionsSnapshot]) -> TransactionsSnapshot:
    if len(pieces) == 1:
        return pieces[0]
    return TransactionsSnapshot(
        tuple(value for piece in pieces for value in piece.values),
        tuple(ms for piece in pieces for ms in piece.changed_ms or ()),
    )


# Up to format 3 all of it was one value.


class _Topic3(Stored, frozen=True):
    name: str
    topic_id: bytes
    config: dict[str, str]
    partitions: list[PartitionSnapshot]


class _Lane3(Stored, frozen=True):
    format: int
    term: int
    disk: msgspec.Raw
    """The journal knows by itself where it is."""
    cluster_id: bytes
    next_partition_number: int
    next_producer_id: int
    topics: list[_Topic3]
    groups: GroupsSnapshot
    transactions: TransactionsSnapshot
    last_moment: tuple[int, int] | None = None
    """Not there up to format 2."""
    wall_ahead_ms: int | None = None


_decode_3 = msgspec.msgpack.Decoder(_Lane3).decode


def _pieces_of_one(stored: bytes) -> Iterator[Piece]:
    read: _Lane3 = _decode_3(stored)
    if read.format not in FORMATS_OF_ONE_PIECE:
        raise _unknown_format(read.format)
    yield LanePiece(
        read.term,
        read.cluster_id,
        read.next_partition_number,
        read.next_producer_id,
        read.last_moment,
        read.wall_ahead_ms,
    )
    for topic in read.topics:
        numbers = [partition.number for partition in topic.partitions]
        yield TopicsPiece([TopicSnapshot(topic.name, topic.topic_id, topic.config, numbers)])
        yield PartitionsPiece(topic.partitions)
    yield GroupsPiece(read.groups)
    yield TransactionsPiece(read.transactions)


def refuse_newer(stored: bytes) -> None:
    """Raises NewerFormat, by the first byte alone."""
    if stored and FORMAT < stored[0] < _ONE_PIECE_MIN:
        raise NewerFormat(
            f"the state in a checkpoint has format {stored[0]}, this Semel reads up to {FORMAT}"
        )


def _unknown_format(number: int) -> CorruptJournal:
    known = (*FORMATS_OF_ONE_PIECE, *FORMATS_OF_PIECES)
    return CorruptJournal(
        f"the checkpoint has format {number}, this Semel reads {', '.join(map(str, known))}"
    )
