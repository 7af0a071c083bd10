"""The payload of a journal frame: the time, then entries.

    time in ms (8)   { kind (1), partition number (4), size (4), bytes }*

Kind 1 is a record batch of that partition as it will be read, kind 2 a fact about the lane (the
partition number is then 0). Everything that a frame changes, it changes at the one time it names.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from semel.errors import CorruptJournal
from semel.types import Position

BATCH: Final = 1
FACT: Final = 2

_TIME: Final = struct.Struct(">q")
_ENTRY: Final = struct.Struct(">BII")
TIME_SIZE: Final = _TIME.size
ENTRY_SIZE: Final = _ENTRY.size

pack_time: Final = _TIME.pack
pack_entry: Final = _ENTRY.pack


class Entry(NamedTuple):
    kind: int
    partition_number: int
    body: memoryview
    body_position: Position


def read_time(payload: memoryview, position: Position) -> int:
    if len(payload) < TIME_SIZE:
        raise CorruptJournal(f"frame at byte {position}: payload cut at {len(payload)} bytes")
    (now_ms,) = _TIME.unpack_from(payload)
    return int(now_ms)


def read_entries(payload: memoryview, position: Position) -> Iterator[Entry]:
    """The entries of the payload whose first byte stands at `position` of the journal."""
    at = TIME_SIZE
    while at < len(payload):
        if len(payload) - at < ENTRY_SIZE:
            raise CorruptJournal(f"entry at byte {position + at}: header cut")
        kind, number, size = _ENTRY.unpack_from(payload, at)
        at += ENTRY_SIZE
        if len(payload) - at < size:
            raise CorruptJournal(f"entry at byte {position + at}: {size} bytes do not fit")
        yield Entry(kind, number, payload[at : at + size], Position(position + at))
        at += size
