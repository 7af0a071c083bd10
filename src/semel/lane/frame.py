"""The payload of a journal frame: when it was made, then entries.

    layout (1)   lane's time in ms (8)   wall clock in ms (8)
    { kind (1), partition number (4), size (4), bytes }*

Kind 1 is a record batch of that partition as it will be read, kind 2 a fact about the lane (the
partition number is then 0). Everything that a frame changes, it changes at the one moment it names.

Layout 0 has one time for both, in eight bytes of which the first is the layout's.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from semel.errors import CorruptJournal
from semel.types import Position
from semel.world import Moment

BATCH: Final = 1
FACT: Final = 2

LAYOUT: Final = 1
_HEAD: Final = struct.Struct(">Bqq")
_HEAD_0: Final = struct.Struct(">q")
_ENTRY: Final = struct.Struct(">BII")
HEAD_SIZE: Final = _HEAD.size
ENTRY_SIZE: Final = _ENTRY.size

pack_head: Final = _HEAD.pack
pack_entry: Final = _ENTRY.pack


class Entry(NamedTuple):
    kind: int
    partition_number: int
    body: memoryview
    body_position: Position


def read_head(payload: memoryview, position: Position) -> tuple[Moment, int]:
    """When the frame was made, and where in its payload the entries begin."""
    try:
        if payload[0] == LAYOUT:
            _, now_ms, wall_ms = _HEAD.unpack_from(payload)
            return Moment(now_ms, wall_ms), HEAD_SIZE
        if payload[0] == 0:
            (only_ms,) = _HEAD_0.unpack_from(payload)
            return Moment(only_ms, only_ms), _HEAD_0.size
    except (IndexError, struct.error) as error:
        raise CorruptJournal(
            f"frame at byte {position}: payload cut at {len(payload)} bytes"
        ) from error
    raise CorruptJournal(
        f"frame at byte {position}: layout {payload[0]}, this Semel reads 0 and {LAYOUT}"
    )


def read_entries(payload: memoryview, at: int, position: Position) -> Iterator[Entry]:
    """The entries from byte `at` of the payload whose first byte stands at `position`."""
    while at < len(payload):
        if len(payload) - at < ENTRY_SIZE:
            raise CorruptJournal(f"entry at byte {position + at}: header cut")
        kind, number, size = _ENTRY.unpack_from(payload, at)
        at += ENTRY_SIZE
        if len(payload) - at < size:
            raise CorruptJournal(f"entry at byte {position + at}: {size} bytes do not fit")
        yield Entry(kind, number, payload[at : at + size], Position(position + at))
        at += size
