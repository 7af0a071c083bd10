"""The note: what one opening of the journal leaves for the next.

It is written in place and in two slots in turn, so that a torn write loses only itself and a full
disk refuses nothing. A byte behind the slots says that the process ended on an I/O error. That
byte is not synced: the kernel's copy is enough, because a reboot is seen by the boot id.

    magic 8 | size 2 | the note in MessagePack | checksum 4

Up to version 0.1 a slot held incarnation and durable position alone. The last byte of the magic is
the number of the format; what stands around the note stays, so that a whole slot of a newer format
is told from a torn one.
"""

import struct
from typing import NamedTuple

import msgspec

from semel.errors import NewerFormat
from semel.journal import names
from semel.journal.file.device import Device, DiskIdentity
from semel.records.checksum import crc32c

_HEAD = struct.Struct("<8sH")
_CHECKSUM = struct.Struct("<I")
_FAMILY = b"SEMELNO"
_FORMAT = 2
_MAGIC = b"%s%d" % (_FAMILY, _FORMAT)
_SLOT_1 = struct.Struct("<8sIQ")
_MAGIC_1 = b"SEMELNO1"
_SLOT_SIZE = 4096
_SLOT_OFFSETS = (0, _SLOT_SIZE)
_FAILED_OFFSET = 2 * _SLOT_SIZE
_SIZE = _FAILED_OFFSET + 1


class Note(NamedTuple):
    incarnation: int
    durable: int
    """Everything before this position was synced."""
    identity: DiskIdentity | None = None
    """Where the journal was when no acknowledged byte was missing, or the lane had said so in a
    durable frame. None if an older version has written the note."""
    number: int = 0
    """Rises from note to note."""
    released: int = 0
    """Where the first segment begins that was not given up."""


class LastNote(NamedTuple):
    note: Note
    failed: bool
    """The process ended on an I/O error."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Note).decode


def read(device: Device) -> LastNote | None:
    """None if there is no note, or none that can be trusted. Raises NewerFormat."""
    try:
        stored = device.read(names.NOTE, 0, _SIZE)
    except FileNotFoundError:
        return None
    newest = _newest(_slots(stored))
    if newest is None or len(stored) < _SIZE:
        return None
    return LastNote(newest, failed=stored[_FAILED_OFFSET] != 0)


def damaged_slots(device: Device) -> list[int]:
    """Where those begin that hold something, and no note that can be trusted."""
    stored = device.read(names.NOTE, 0, _SIZE)
    return [
        offset
        for offset, found in zip(_SLOT_OFFSETS, _slots(stored), strict=True)
        if found is None and any(stored[offset : offset + _SLOT_SIZE])
    ]


def make(device: Device) -> None:
    """Gives the note its room, if it has none yet."""
    device.allocate(names.NOTE, _SIZE)


def write(device: Device, note: Note) -> None:
    """Lasting when it returns."""
    slots = _slots(device.read(names.NOTE, 0, _SIZE))
    newest = _newest(slots)
    offset = _SLOT_OFFSETS[1] if newest is not None and newest is slots[0] else _SLOT_OFFSETS[0]
    number = 1 if newest is None else newest.number + 1
    body = _encode(note._replace(number=number))
    stored = _HEAD.pack(_MAGIC, len(body)) + body
    stored += _CHECKSUM.pack(crc32c(stored))
    assert len(stored) <= _SLOT_SIZE
    device.write(names.NOTE, offset, [stored])
    device.sync(names.NOTE)


def write_failed(device: Device, *, failed: bool) -> None:
    device.write(names.NOTE, _FAILED_OFFSET, [bytes([failed])])


def _newest(slots: list[Note | None]) -> Note | None:
    found = [note for note in slots if note is not None]
    return max(found, key=_order, default=None)


def _order(note: Note) -> tuple[int, int, int]:
    return note.number, note.incarnation, note.durable


def _slots(stored: bytes) -> list[Note | None]:
    return [_slot(stored[offset : offset + _SLOT_SIZE]) for offset in _SLOT_OFFSETS]


def _slot(stored: bytes) -> Note | None:
    if len(stored) < _SLOT_SIZE:
        return None
    if stored.startswith(_MAGIC_1):
        size = _SLOT_1.size
    else:
        magic, body_size = _HEAD.unpack_from(stored)
        size = _HEAD.size + body_size
        if not magic.startswith(_FAMILY) or size + _CHECKSUM.size > _SLOT_SIZE:
            return None
    (checksum,) = _CHECKSUM.unpack_from(stored, size)
    if checksum != crc32c(stored[:size]):
        return None
    if stored.startswith(_MAGIC_1):
        _, incarnation, durable = _SLOT_1.unpack_from(stored)
        return Note(incarnation, durable)
    if not stored.startswith(_MAGIC):
        shown = stored[len(_FAMILY) : len(_MAGIC)].decode("latin-1")
        raise NewerFormat(f"the note has format {shown}, this Semel reads up to {_FORMAT}")
    try:
        found: Note = _decode(stored[_HEAD.size : size])
    except msgspec.MsgspecError as error:
        raise NewerFormat(f"the note says what this Semel does not know: {error}") from error
    return found
