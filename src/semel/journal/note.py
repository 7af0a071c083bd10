"""The note: what one opening of the journal leaves for the next.

It is written at every open and clean close, in place and in two slots in turn, so that a torn write
loses only itself and a full disk refuses nothing. A byte behind the slots says that the process
ended on an I/O error. That byte is not synced: the kernel's copy is enough, because a reboot is
seen by the boot id.
"""

import struct
from typing import NamedTuple

from semel.journal import names
from semel.journal.device import Device
from semel.records.checksum import crc32c

_SLOT = struct.Struct("<8sIQ")
_CHECKSUM = struct.Struct("<I")
_MAGIC = b"SEMELNO1"
_SLOT_OFFSETS = (0, 4096)
_FAILED_OFFSET = 8192
_SIZE = _FAILED_OFFSET + 1


class Note(NamedTuple):
    incarnation: int
    durable: int
    """Everything before this position was synced."""


class LastNote(NamedTuple):
    note: Note
    failed: bool
    """The process ended on an I/O error."""


def read(device: Device) -> LastNote | None:
    """None if there is no note, or none that can be trusted."""
    try:
        stored = device.read(names.NOTE, 0, _SIZE)
    except FileNotFoundError:
        return None
    found = [note for note in _slots(stored) if note is not None]
    if not found or len(stored) < _SIZE:
        return None
    return LastNote(max(found), failed=stored[_FAILED_OFFSET] != 0)


def make(device: Device) -> None:
    """Gives the note its room, if it has none yet."""
    device.allocate(names.NOTE, _SIZE)


def write(device: Device, note: Note) -> None:
    """Lasting when it returns."""
    slots = _slots(device.read(names.NOTE, 0, _SIZE))
    newest = max((slot for slot in slots if slot is not None), default=None)
    offset = _SLOT_OFFSETS[1] if newest is not None and newest == slots[0] else _SLOT_OFFSETS[0]
    body = _SLOT.pack(_MAGIC, *note)
    device.write(names.NOTE, offset, [body + _CHECKSUM.pack(crc32c(body))])
    device.sync(names.NOTE)


def mark(device: Device, *, failed: bool) -> None:
    device.write(names.NOTE, _FAILED_OFFSET, [bytes([failed])])


def _slots(stored: bytes) -> list[Note | None]:
    return [_slot(stored[offset : offset + _SLOT.size + 4]) for offset in _SLOT_OFFSETS]


def _slot(stored: bytes) -> Note | None:
    if len(stored) < _SLOT.size + _CHECKSUM.size:
        return None
    magic, incarnation, durable = _SLOT.unpack_from(stored)
    (checksum,) = _CHECKSUM.unpack_from(stored, _SLOT.size)
    if magic != _MAGIC or checksum != crc32c(stored[: _SLOT.size]):
        return None
    return Note(incarnation, durable)
