"""A checkpoint of a journal on a store: what all slots before one of them have come to.

    header | stretch bases | slots | first positions | ends | index of the open stretch | state

It is one object, created once. Whoever creates it says the same of the same slots, so that it does
not matter whose it is. The header has a checksum of its own and those of what follows: its first
bytes alone tell how things stood.

What is too large for one request lies in parts of its own, which are created before, under names
that nobody else uses; the object has their name instead of the last two:

    header | stretch bases | slots | first positions | ends | name

Parts are removed when a checkpoint behind theirs is there, since nobody begins with theirs then.
"""

import asyncio
import struct
from array import array
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from semel.errors import CorruptJournal, NewerFormat
from semel.journal.slots import keys
from semel.journal.slots.calls import Calls
from semel.journal.slots.history import Standing
from semel.journal.slots.table import SlotTable
from semel.records.checksum import crc32c
from semel.store.seam import PART_BYTES
from semel.types import Buffer, Position

_HEADER: Final = struct.Struct("<8sQiiBQIIIQQIII")
_CHECKSUM: Final = struct.Struct("<I")
_FAMILY: Final = b"SEMELCK"
_WHOLE: Final = b"1"
_IN_PARTS: Final = b"2"
_FORMATS: Final = (_WHOLE, _IN_PARTS)
NAME_SIZE: Final = 48
PART_SIZE: Final = PART_BYTES
"""Bytes of a part, but for the last."""
READS_AT_ONCE: Final = 4
HEADER_SIZE: Final = _HEADER.size + _CHECKSUM.size
OUTLINE_SIZE: Final = 64 * 1024
"""Read at first, which mostly holds all but the indexes and the state."""
KEPT_COUNT: Final = 2
"""The newest, and one more for those who are reading it."""


class Checkpoint(NamedTuple):
    slot: int
    """The first that it knows nothing of."""
    standing: Standing
    bases: Sequence[int]
    """Where the stretches begin; the last is open."""
    table: SlotTable
    opened: Buffer
    """The batch index of the open stretch."""
    state: Sequence[Buffer]
    """The lane's, in pieces."""


def encode(checkpoint: Checkpoint, state_checksum: int, name: str = "") -> list[Buffer]:
    """`state_checksum` is that of all pieces, which were checked one by one as they came. With the
    `name` of parts, what lies in these is left out."""
    standing = checkpoint.standing
    bases = array("q", checkpoint.bases)
    columns = [bases, *checkpoint.table.columns_before(checkpoint.slot)]
    tables = b"".join(column.tobytes() for column in columns)
    if name:
        tables += name.encode().ljust(NAME_SIZE, b"\0")
    packed = _HEADER.pack(
        _FAMILY + (_IN_PARTS if name else _WHOLE),
        checkpoint.slot,
        standing.epoch,
        standing.term,
        standing.is_sealed,
        standing.end,
        standing.checksum,
        len(bases),
        len(columns[1]),
        len(checkpoint.opened),
        sum(map(len, checkpoint.state)),
        crc32c(tables),
        crc32c(checkpoint.opened),
        state_checksum,
    )
    header = packed + _CHECKSUM.pack(crc32c(packed))
    return [header, tables] if name else [header, tables, checkpoint.opened, *checkpoint.state]


def parts_of(checkpoint: Checkpoint) -> Iterator[Buffer]:
    """What lies in parts, in their order."""
    part = bytearray()
    for piece in (checkpoint.opened, *checkpoint.state):
        view = memoryview(piece)
        while view:
            fits = PART_SIZE - len(part)
            part += view[:fits]
            view = view[fits:]
            if len(part) == PART_SIZE:
                yield part
                part = bytearray()
    if part:
        yield part


class _Head(NamedTuple):
    slot: int
    standing: Standing
    base_count: int
    slot_count: int
    opened_size: int
    state_size: int
    checksums: tuple[int, int, int]
    is_in_parts: bool

    @property
    def columns_size(self) -> int:
        return 8 * (self.base_count + 3 * self.slot_count)

    @property
    def tables_size(self) -> int:
        return self.columns_size + (NAME_SIZE if self.is_in_parts else 0)

    @property
    def part_count(self) -> int:
        return -(-(self.opened_size + self.state_size) // PART_SIZE)


def _decode_head(stored: Buffer, key: str) -> _Head:
    view = memoryview(stored)[:HEADER_SIZE]
    if len(view) < HEADER_SIZE or bytes(view[: len(_FAMILY)]) != _FAMILY:
        raise CorruptJournal(f"{key}: this is no checkpoint")
    format_ = bytes(view[len(_FAMILY) : len(_FAMILY) + 1])
    if format_ not in _FORMATS:
        shown = format_.decode("latin-1")
        raise NewerFormat(f"{key} has format {shown}, this Semel reads up to {len(_FORMATS)}")
    if _CHECKSUM.unpack_from(view, _HEADER.size) != (crc32c(view[: _HEADER.size]),):
        raise CorruptJournal(f"{key}: wrong checksum of the header")
    _, slot, epoch, term, is_sealed, end, checksum, *sizes = _HEADER.unpack_from(view)
    standing = Standing(epoch, term, bool(is_sealed), Position(end), checksum)
    base_count, slot_count, opened_size, state_size, *checksums = sizes
    tables, opened, state = checksums
    return _Head(
        slot,
        standing,
        base_count,
        slot_count,
        opened_size,
        state_size,
        (tables, opened, state),
        format_ == _IN_PARTS,
    )


class Outline(NamedTuple):
    """What a checkpoint says of the slots before it, without the lane's state."""

    slot: int
    standing: Standing
    bases: Sequence[int]
    table: SlotTable


def _tables(head: _Head, tables: Buffer, key: str) -> Outline:
    if crc32c(tables) != head.checksums[0]:
        raise CorruptJournal(f"{key}: wrong checksum")
    words = array("q", bytes(tables[: head.columns_size]))
    bases, words = words[: head.base_count], words[head.base_count :]
    count = head.slot_count
    table = SlotTable.of(words[:count], words[count : 2 * count], words[2 * count :])
    return Outline(head.slot, head.standing, bases, table)


def name_of_parts(stored: Buffer, key: str) -> tuple[str, int] | None:
    """And how many there are; None if all of it is here. Raises CorruptJournal, NewerFormat."""
    head = _decode_head(stored, key)
    if not head.is_in_parts:
        return None
    tables = memoryview(stored)[HEADER_SIZE:]
    if len(tables) != head.tables_size or crc32c(tables) != head.checksums[0]:
        raise CorruptJournal(f"{key}: wrong checksum")
    name = bytes(tables[head.columns_size :]).rstrip(b"\0").decode()
    return name, head.part_count


def decode(stored: Buffer, key: str, parts: Sequence[Buffer] = ()) -> Checkpoint:
    """Raises CorruptJournal, NewerFormat."""
    head = _decode_head(stored, key)
    view = memoryview(b"".join((stored, *parts)) if parts else stored)[HEADER_SIZE:]
    sizes = (head.tables_size, head.opened_size, head.state_size)
    if len(view) != sum(sizes):
        raise CorruptJournal(f"{key}: {len(view)} of {sum(sizes)} bytes are there")
    sections: list[memoryview] = []
    for size, checksum in zip(sizes, head.checksums, strict=True):
        sections.append(view[:size])
        view = view[size:]
        if crc32c(sections[-1]) != checksum:
            raise CorruptJournal(f"{key}: wrong checksum")
    tables, opened, state = sections
    outline = _tables(head, tables, key)
    return Checkpoint(*outline, bytes(opened), [bytes(state)])


async def boundary(calls: Calls, lane: int) -> int:
    """The slot of the newest checkpoint, 0 if there is none: slots before it may be gone."""
    found = keys.numbers(await calls.until_listed(keys.checkpoints(lane)))
    return found[-1] if found else 0


async def outline_at(calls: Calls, lane: int, slot: int) -> Outline | None:
    """None if it was replaced by a newer one. Raises CorruptJournal, NewerFormat."""
    key = keys.checkpoint(lane, slot)

    async def first(size: int) -> Buffer | None:
        return await calls.until_answered(lambda: calls.get_range(key, 0, size))

    stored = await first(OUTLINE_SIZE)
    if stored is None:
        return None
    head = _decode_head(stored, key)
    end = HEADER_SIZE + head.tables_size
    if end > OUTLINE_SIZE:
        stored = await first(end)
    return None if stored is None else _tables(head, stored[HEADER_SIZE:end], key)


async def newest(calls: Calls, lane: int) -> Checkpoint | None:
    """None if there is none. Raises CorruptJournal, NewerFormat."""
    delays = calls.delays()
    while slot := await boundary(calls, lane):
        key = keys.checkpoint(lane, slot)
        stored = await calls.until_got(key)
        parts = None if stored is None else await _read_parts(calls, lane, stored, key)
        if stored is not None and parts is not None:
            checkpoint = decode(stored, key, parts)
            if checkpoint.slot != slot:
                raise CorruptJournal(f"{key}: this is the checkpoint at {checkpoint.slot}")
            return checkpoint
        if stored is not None and await boundary(calls, lane) == slot:
            raise CorruptJournal(f"{key}: parts of it are missing")
        # It was replaced meanwhile by a newer one.
        await asyncio.sleep(next(delays))
    return None


async def at(calls: Calls, lane: int, slot: int) -> Checkpoint:
    """This one, of a lane that nobody leads. Raises CorruptJournal, NewerFormat."""
    key = keys.checkpoint(lane, slot)
    stored = await calls.until_got(key)
    if stored is None:
        raise CorruptJournal(f"{key} is gone")
    parts = await _read_parts(calls, lane, stored, key)
    if parts is None:
        raise CorruptJournal(f"{key}: parts of it are missing")
    checkpoint = decode(stored, key, parts)
    if checkpoint.slot != slot:
        raise CorruptJournal(f"{key}: this is the checkpoint at {checkpoint.slot}")
    return checkpoint


async def _read_parts(calls: Calls, lane: int, stored: Buffer, key: str) -> Sequence[Buffer] | None:
    """None if some are gone, as those of a checkpoint are that was replaced."""
    named = name_of_parts(stored, key)
    if named is None:
        return ()
    name, count = named
    wanted = [keys.checkpoint_part(lane, name, number) for number in range(count)]
    found: list[bytes] = []
    for first in range(0, count, READS_AT_ONCE):
        some = await asyncio.gather(*map(calls.until_got, wanted[first : first + READS_AT_ONCE]))
        present = [part for part in some if part is not None]
        if len(present) < len(some):
            return None
        found += present
    return found
