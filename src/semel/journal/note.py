"""The note: what one opening of the journal leaves for the next.

It is replaced at every open and clean close. Its last byte lies outside the checksum, so that a
dying process can set it in place: a failing disk may refuse anything that needs a new block, and
the kernel's copy is enough, because a reboot is seen by the boot id.
"""

import struct
from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from semel.journal import names
from semel.journal.device import Device

_NOTE = struct.Struct("<8sIQ")
_CHECKSUM = struct.Struct("<I")
_MAGIC = b"SEMELNO1"
_FAILED_AT = _NOTE.size + _CHECKSUM.size
_SIZE = _FAILED_AT + 1


class Note(NamedTuple):
    incarnation: int
    durable: int
    """Everything before this position was synced."""
    failed: bool = False
    """The last process ended on an I/O error."""


def write(device: Device, note: Note) -> None:
    body = _NOTE.pack(_MAGIC, note.incarnation, note.durable)
    temporary = names.NOTE + names.TEMPORARY
    device.create(temporary)
    device.write(temporary, 0, [body + _CHECKSUM.pack(crc32c(body)) + bytes([note.failed])])
    device.sync(temporary)
    device.rename(temporary, names.NOTE)
    device.sync_folder()


def read(device: Device) -> Note | None:
    """None if there is no note, or none that can be trusted."""
    try:
        stored = device.read(names.NOTE, 0, _SIZE)
    except FileNotFoundError:
        return None
    if len(stored) < _SIZE:
        return None
    magic, incarnation, durable = _NOTE.unpack_from(stored)
    (checksum,) = _CHECKSUM.unpack_from(stored, _NOTE.size)
    if magic != _MAGIC or checksum != crc32c(stored[: _NOTE.size]):
        return None
    return Note(incarnation, durable, failed=stored[_FAILED_AT] != 0)


def mark(device: Device, *, failed: bool) -> None:
    """In place and unsynced; see above."""
    device.write(names.NOTE, _FAILED_AT, [bytes([failed])])
