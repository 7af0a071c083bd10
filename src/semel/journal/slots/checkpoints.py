"""A checkpoint of a journal on a store: what all slots before one of them have come to.

    header | stretch bases | slots | first positions | ends | index of the open stretch | state

It is one object, created once. Whoever creates it says the same of the same slots, so that it does
not matter whose it is. The header has a checksum of its own and those of what follows: its first
bytes alone tell how things stood.

Bound: the object is one PUT. A state of more than 8 MiB has to be stored in several parts.
"""

import asyncio
import struct
from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

from semel.errors import CorruptJournal, NewerFormat
from semel.journal.slots import keys
from semel.journal.slots.calls import Calls
from semel.journal.slots.history import Standing
from semel.journal.slots.table import SlotTable
from semel.records.checksum import crc32c
from semel.types import Buffer, Position

_HEADER: Final = struct.Struct("<8sQiiBQIIIQQIII")
_CHECKSUM: Final = struct.Struct("<I")
_FAMILY: Final = b"SEMELCK"
_FORMAT: Final = 1
_MAGIC: Final = b"%s%d" % (_FAMILY, _FORMAT)
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


def encode(checkpoint: Checkpoint, state_checksum: int) -> list[Buffer]:
    """`state_checksum` is that of all pieces, which were checked one by one as they came."""
    standing = checkpoint.standing
    bases = array("q", checkpoint.bases)
    columns = [bases, *checkpoint.table.columns_before(checkpoint.slot)]
    tables = b"".join(column.tobytes() for column in columns)
    packed = _HEADER.pack(
        _MAGIC,
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
    return [header, tables, checkpoint.opened, *checkpoint.state]


class _Head(NamedTuple):
    slot: int
    standing: Standing
    base_count: int
    slot_count: int
    opened_size: int
    state_size: int
    checksums: tuple[int, int, int]

    @property
    def tables_size(self) -> int:
        return 8 * (self.base_count + 3 * self.slot_count)


def _decode_head(stored: Buffer, key: str) -> _Head:
    view = memoryview(stored)[:HEADER_SIZE]
    if len(view) < HEADER_SIZE or bytes(view[: len(_FAMILY)]) != _FAMILY:
        raise CorruptJournal(f"{key}: this is no checkpoint")
    if bytes(view[: len(_MAGIC)]) != _MAGIC:
        shown = bytes(view[len(_FAMILY) : len(_MAGIC)]).decode("latin-1")
        raise NewerFormat(f"{key} has format {shown}, this Semel reads up to {_FORMAT}")
    if _CHECKSUM.unpack_from(view, _HEADER.size) != (crc32c(view[: _HEADER.size]),):
        raise CorruptJournal(f"{key}: wrong checksum of the header")
    _, slot, epoch, term, is_sealed, end, checksum, *sizes = _HEADER.unpack_from(view)
    standing = Standing(epoch, term, bool(is_sealed), Position(end), checksum)
    base_count, slot_count, opened_size, state_size, *checksums = sizes
    tables, opened, state = checksums
    return _Head(
        slot, standing, base_count, slot_count, opened_size, state_size, (tables, opened, state)
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
    words = array("q", bytes(tables))
    bases, words = words[: head.base_count], words[head.base_count :]
    count = head.slot_count
    table = SlotTable.of(words[:count], words[count : 2 * count], words[2 * count :])
    return Outline(head.slot, head.standing, bases, table)


def decode(stored: Buffer, key: str) -> Checkpoint:
    """Raises CorruptJournal, NewerFormat."""
    head = _decode_head(stored, key)
    view = memoryview(stored)[HEADER_SIZE:]
    sizes = (head.tables_size, head.opened_size, head.state_size)
    if len(view) != sum(sizes):
        raise CorruptJournal(f"{key}: {len(view)} of {sum(sizes)} bytes are there")
    parts: list[memoryview] = []
    for size, checksum in zip(sizes, head.checksums, strict=True):
        parts.append(view[:size])
        view = view[size:]
        if crc32c(parts[-1]) != checksum:
            raise CorruptJournal(f"{key}: wrong checksum")
    tables, opened, state = parts
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
        if stored is not None:
            checkpoint = decode(stored, key)
            if checkpoint.slot != slot:
                raise CorruptJournal(f"{key}: this is the checkpoint at {checkpoint.slot}")
            return checkpoint
        # It was replaced meanwhile by a newer one.
        await asyncio.sleep(next(delays))
    return None
