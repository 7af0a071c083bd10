"""A frame as a value: when it was made, the record batches and the facts that it brings.

Whatever changes in a lane changes because a frame is applied, in one step and at the one moment it
names, when the frame is new and when it is read again. Its size is known before it is stored. The
payload that the journal keeps:

    layout (1)   lane's time in ms (8)   wall clock in ms (8)
    { kind (1), partition number (4), size (4), bytes }*

Kind 1 is a record batch of that partition as it will be read, kind 2 a fact about the lane (the
partition number is then 0). Layout 0 has one time for both, in eight bytes of which the first is
the layout's. Layouts 2 and 3 are as 1, and say something that versions before cannot read: 2 about
transactions over lanes, 3 about who may come in.
"""

import struct
from typing import Final

import msgspec

from semel.errors import CorruptJournal, CorruptMessage, NewerFormat
from semel.groups.records import GroupRecord
from semel.lane import facts
from semel.lane.facts import AnyFact
from semel.records import batch as record_batch
from semel.records.batch import PREFIX_SIZE, BatchHeader
from semel.records.control import Marker, decode_marker
from semel.transactions.transaction import Transaction
from semel.types import Buffer, Offset, Position, Term
from semel.world import Moment

BATCH: Final = 1
FACT: Final = 2

LAYOUT: Final = 3
LAYOUT_OF_LANES: Final = 2
LAYOUT_OF_ONE_LANE: Final = 1
"""Written wherever versions before can read all that is said."""
_HEAD: Final = struct.Struct(">Bqq")
_HEAD_0: Final = struct.Struct(">q")
_ENTRY: Final = struct.Struct(">BII")
HEAD_SIZE: Final = _HEAD.size
ENTRY_SIZE: Final = _ENTRY.size

_BATCH: Final = struct.Struct(">BIIqii")
"""An entry, and the prefix of its batch with the offset and the leader epoch that it gets."""

pack_head: Final = _HEAD.pack
pack_entry: Final = _ENTRY.pack
pack_batch: Final = _BATCH.pack
_pack_only_batch: Final = struct.Struct(_HEAD.format + _BATCH.format.removeprefix(">")).pack
"""All of a frame that stands before the rest of its one batch."""

assert _BATCH.size == ENTRY_SIZE + PREFIX_SIZE

JOINED_SIZE_MAX: Final = 512
"""Bytes. A smaller batch is copied into one piece with its neighbours."""

Learned = tuple[GroupRecord | Transaction, ...]
"""What a coordinator learns from a batch of its own topic."""


class BatchEntry:
    """The next record batch of a partition. `body` may have another offset and leader epoch in its
    prefix than it gets: these stand here."""

    __slots__ = (
        "at",
        "base_offset",
        "body",
        "fingerprint",
        "header",
        "learned",
        "marker",
        "number",
        "term",
    )

    def __init__(
        self,
        number: int,
        base_offset: Offset,
        term: Term,
        header: BatchHeader,
        fingerprint: int,
        body: memoryview,
        at: int,
        marker: Marker | None = None,
        learned: Learned | None = None,
    ) -> None:
        self.number = number
        """Of the partition, as the lane counts."""
        self.base_offset = base_offset
        self.term = term
        self.header = header
        self.fingerprint = fingerprint
        self.body = body
        self.at = at
        """Where the body begins in the frame's payload."""
        self.marker = marker
        """What it says, if it ends a transaction."""
        self.learned = learned
        """None if it is to be read from the body."""


Entry = BatchEntry | AnyFact


class Frame:
    """Grows while a decision is being made; what was decided is changed by nobody."""

    __slots__ = ("_counted", "_ends", "at", "batches", "entries", "layout", "size")

    def __init__(self, at: Moment) -> None:
        self.at = at
        self.entries: list[Entry] = []
        self.batches: list[BatchEntry] = []
        """Those among the entries."""
        self.size = HEAD_SIZE
        """Bytes of the payload."""
        self.layout = LAYOUT_OF_ONE_LANE
        self._ends: dict[int, int] | None = None
        """Of the partitions that the first `_counted` batches belong to, once someone asks."""
        self._counted = 0

    def add_batch(
        self,
        number: int,
        base_offset: Offset,
        term: Term,
        header: BatchHeader,
        fingerprint: int,
        body: memoryview,
        marker: Marker | None = None,
        learned: Learned | None = None,
    ) -> None:
        """The partition's next. Who may add several of one partition asks for `next_offset`."""
        at = self.size + ENTRY_SIZE
        batch = BatchEntry(
            number, base_offset, term, header, fingerprint, body, at, marker, learned
        )
        self.entries.append(batch)
        self.batches.append(batch)
        self.size = at + len(body)

    def next_offset(self, number: int, end: Offset) -> Offset:
        """Of a partition that ended at `end` before this frame: behind what it has here already."""
        if not self.batches:
            return end
        if self._ends is None:
            self._ends = {}
        ends = self._ends
        for batch in self.batches[self._counted :]:
            ends[batch.number] = batch.base_offset + batch.header.last_offset_delta + 1
        self._counted = len(self.batches)
        return Offset(ends.get(number, end))

    def add_fact(self, fact: AnyFact) -> None:
        self.entries.append(fact)
        if isinstance(fact, facts.AboutLanes):
            self.layout = max(self.layout, LAYOUT_OF_LANES)
        elif isinstance(fact, facts.AboutAccess):
            self.layout = LAYOUT
        self.size += ENTRY_SIZE + len(facts.encode(fact))

    def encode(self) -> list[Buffer]:
        """The payload. Small pieces are joined, as each costs the checksum and the write a call."""
        if len(self.entries) == 1 and self.batches:
            return self._encode_batch(self.batches[0])
        parts: list[Buffer] = []
        small = bytearray(pack_head(self.layout, self.at.now_ms, self.at.wall_ms))
        for entry in self.entries:
            if isinstance(entry, BatchEntry):
                body = entry.body
                size = len(body)
                small += pack_batch(
                    BATCH, entry.number, size, entry.base_offset, entry.header.length, entry.term
                )
                if size < JOINED_SIZE_MAX:
                    small += body[PREFIX_SIZE:]
                else:
                    parts += (small, body[PREFIX_SIZE:])
                    small = bytearray()
            else:
                stored = facts.encode(entry)
                small += pack_entry(FACT, 0, len(stored)) + stored
        if small:
            parts.append(small)
        return parts

    def _encode_batch(self, entry: BatchEntry) -> list[Buffer]:
        """The only one, as a small producer's request brings it."""
        at, body = self.at, entry.body
        size = len(body)
        start = _pack_only_batch(
            self.layout,
            at.now_ms,
            at.wall_ms,
            BATCH,
            entry.number,
            size,
            entry.base_offset,
            entry.header.length,
            entry.term,
        )
        rest = body[PREFIX_SIZE:]
        return [start + rest] if size < JOINED_SIZE_MAX else [start, rest]


def decode(payload: memoryview, position: Position) -> Frame:
    """The frame whose payload's first byte stands at `position` of the journal."""
    at, start = read_head(payload, position)
    frame = Frame(at)
    frame.size = start
    while frame.size < len(payload):
        if len(payload) - frame.size < ENTRY_SIZE:
            raise CorruptJournal(f"entry at byte {position + frame.size}: header cut")
        kind, number, size = _ENTRY.unpack_from(payload, frame.size)
        begin = frame.size + ENTRY_SIZE
        if len(payload) - begin < size:
            raise CorruptJournal(f"entry at byte {position + begin}: {size} bytes do not fit")
        body = payload[begin : begin + size]
        if kind == BATCH:
            batch = _batch(number, body, begin)
            frame.entries.append(batch)
            frame.batches.append(batch)
        elif kind == FACT:
            frame.entries.append(_fact(body, position + begin))
        else:
            raise CorruptJournal(
                f"entry at byte {position + begin}: kind {kind}. "
                f"It is damaged, or written by a newer Semel"
            )
        frame.size = begin + size
    return frame


def batches_of(payload: memoryview, position: int) -> list[BatchEntry]:
    """Raises CorruptJournal."""
    try:
        return decode(payload, Position(position)).batches
    except CorruptMessage as error:
        raise CorruptJournal(f"frame at byte {position}: {error}") from error


def _batch(number: int, body: memoryview, at: int) -> BatchEntry:
    header = record_batch.read(body)
    return BatchEntry(
        number,
        Offset(header.base_offset),
        Term(header.leader_epoch),
        header,
        record_batch.fingerprint(header, body),
        body,
        at,
        decode_marker(body) if header.is_control else None,
    )


def _fact(body: memoryview, position: int) -> AnyFact:
    try:
        fact: AnyFact = facts.decode(body)
    except msgspec.MsgspecError as error:
        raise CorruptJournal(
            f"fact at byte {position}: {error}. It is damaged, or written by a newer Semel"
        ) from error
    return fact


def read_head(payload: memoryview, position: Position) -> tuple[Moment, int]:
    """When the frame was made, and where in its payload the entries begin."""
    try:
        if payload[0] in (LAYOUT_OF_ONE_LANE, LAYOUT_OF_LANES, LAYOUT):
            _, now_ms, wall_ms = _HEAD.unpack_from(payload)
            return Moment(now_ms, wall_ms), HEAD_SIZE
        if payload[0] == 0:
            (only_ms,) = _HEAD_0.unpack_from(payload)
            return Moment(only_ms, only_ms), _HEAD_0.size
    except (IndexError, struct.error) as error:
        raise CorruptJournal(
            f"frame at byte {position}: payload cut at {len(payload)} bytes"
        ) from error
    raise _unknown_layout(payload, position)


def refuse_newer(payload: memoryview, position: int) -> None:
    """Raises NewerFormat, by the first byte alone."""
    if payload and payload[0] > LAYOUT:
        raise _unknown_layout(payload, position)


def _unknown_layout(payload: memoryview, position: int) -> NewerFormat:
    return NewerFormat(
        f"the frame at byte {position} has layout {payload[0]}, this Semel reads up to {LAYOUT}"
    )
