"""What a slot holds: a fence, frames of the journal, or a seal.

    magic 4 | format 1 | kind 1 | unused 2 | epoch 4 | term 4 | node 4 | nonce 16
    | first position 8 | durable 8 | size 4 | checksum 4 | body

The checksum is that of the header. The body of a fence is empty, that of a seal names a successor,
and that of data is frames as in files (`journal/frames.py`), each with its own checksum, whose
incarnation is the epoch.
"""

import struct
from enum import Enum
from typing import Final, NamedTuple

from semel.errors import CorruptJournal, NewerFormat
from semel.journal.frames import HEADER_SIZE, MAGIC, checksum_of, header_at
from semel.records.checksum import crc32c
from semel.types import Buffer, Position

_HEADER: Final = struct.Struct("<4sBc2xiii16sQQI")
_CHECKSUM: Final = struct.Struct("<I")
_SUCCESSOR: Final = struct.Struct("<i")
_MAGIC: Final = b"SMLJ"
FORMAT: Final = 1
ENTRY_HEADER_SIZE: Final = _HEADER.size + _CHECKSUM.size
NONCE_SIZE: Final = 16
NOBODY: Final = -1


class Kind(Enum):
    FENCE = b"F"
    DATA = b"D"
    SEAL = b"S"


class Head(NamedTuple):
    kind: Kind
    epoch: int
    """That of the fence by which its writer leads."""
    term: int
    """As its writer knows it. What counts is told by the slots before it (rule 17)."""
    node: int
    nonce: bytes
    """Tells one's own entry from all others (rule 15)."""
    first_position: Position
    durable: Position
    """What its writer knew to be durable."""
    size: int
    """Bytes of the body."""

    @property
    def end(self) -> Position:
        """Behind its last frame."""
        return Position(self.first_position + (self.size if self.kind is Kind.DATA else 0))


class Entry(NamedTuple):
    head: Head
    body: Buffer


def encode(head: Head) -> bytes:
    """The header alone: the body lies in as many parts as it was appended in."""
    packed = _HEADER.pack(
        _MAGIC,
        FORMAT,
        head.kind.value,
        head.epoch,
        head.term,
        head.node,
        head.nonce,
        head.first_position,
        head.durable,
        head.size,
    )
    return packed + _CHECKSUM.pack(crc32c(packed))


def decode(stored: Buffer, key: str) -> Entry:
    """Raises CorruptJournal, NewerFormat."""
    head, body = head_of(stored, key), memoryview(stored)[ENTRY_HEADER_SIZE:]
    if len(body) != head.size:
        raise CorruptJournal(f"{key}: {len(body)} of {head.size} bytes are there")
    return Entry(head, body)


def head_of(stored: Buffer, key: str) -> Head:
    """Of what is stored there, or of its first `ENTRY_HEADER_SIZE` bytes. Raises as `decode`."""
    view = memoryview(stored)
    if len(view) < ENTRY_HEADER_SIZE or bytes(view[: len(_MAGIC)]) != _MAGIC:
        raise CorruptJournal(f"{key}: this is no entry of a journal")
    if view[len(_MAGIC)] > FORMAT:
        raise NewerFormat(f"{key} has format {view[len(_MAGIC)]}, this Semel reads up to {FORMAT}")
    (checksum,) = _CHECKSUM.unpack_from(view, _HEADER.size)
    if checksum != crc32c(view[: _HEADER.size]):
        raise CorruptJournal(f"{key}: wrong checksum of the header")
    _, _, kind, epoch, term, node, nonce, first, durable, size = _HEADER.unpack_from(view)
    try:
        known = Kind(kind)
    except ValueError:
        raise CorruptJournal(f"{key}: {kind!r} is no kind of entry") from None
    return Head(known, epoch, term, node, nonce, Position(first), Position(durable), size)


def successor_bytes(node: int | None) -> bytes:
    return _SUCCESSOR.pack(NOBODY if node is None else node)


def successor_of(seal: Entry) -> int | None:
    """The node that should lead next; others wait out the detection time."""
    (node,) = _SUCCESSOR.unpack_from(seal.body)
    return None if node == NOBODY else node


class Frames(NamedTuple):
    payloads: list[tuple[Position, memoryview]]
    """Each with where its first byte stands."""
    checksum: int
    """Of the last frame: the next names it as its previous."""


def frames_of(entry: Entry, previous: int, key: str) -> Frames:
    """Of data that follows a frame with this checksum. Raises CorruptJournal."""
    head, body = entry.head, memoryview(entry.body)
    payloads: list[tuple[Position, memoryview]] = []
    at = 0
    while at < len(body):
        reason = ""
        if len(body) - at < HEADER_SIZE or bytes(body[at : at + len(MAGIC)]) != MAGIC:
            raise CorruptJournal(f"{key}, byte {ENTRY_HEADER_SIZE + at}: no frame begins here")
        header = header_at(body, at)
        stop = at + HEADER_SIZE + header.size
        if header.position != head.first_position + at:
            reason = f"the frame says that it stands at {header.position}"
        elif stop > len(body):
            reason = f"a frame of {header.size} bytes does not fit"
        elif header.incarnation != head.epoch:
            reason = f"a frame of epoch {header.incarnation}"
        elif header.previous != previous:
            reason = "it does not follow the frame before it"
        elif checksum_of(body[at:stop]) != header.checksum:
            reason = "wrong checksum"
        if reason:
            raise CorruptJournal(f"{key}, byte {ENTRY_HEADER_SIZE + at}: {reason}")
        previous = header.checksum
        payloads.append((Position(header.position + HEADER_SIZE), body[at + HEADER_SIZE : stop]))
        at = stop
    return Frames(payloads, previous)
