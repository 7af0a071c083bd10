"""The names of a lane's files: each carries the position where its content begins or holds.

Volumes have positions of their own, behind all that a journal will ever reach. So a position tells
which file it lies in, a segment of the journal or a volume.
"""

from functools import lru_cache
from typing import Final

LOCK = "lock"
NOTE = "note"
FORMAT = "format"
PREALLOCATED = "prepared"  # The name it has on disks.
BALLAST = "ballast"
LANES = "lanes"
VOLUMES = "volumes"
TEMPORARY = ".tmp"
SEGMENT = ".segment"
INDEX = ".index"
CHECKPOINT = ".checkpoint"
VOLUME = ".volume"
VOLUME_INDEX = ".volume-index"

DIGITS = 20

VOLUMES_FROM: Final = 2**62
"""The position of the first byte of volume 0."""
VOLUME_SPAN: Final = 2**36
"""Positions from one volume to the next, more than any has bytes."""


@lru_cache(1024)
def segment(base: int) -> str:
    return f"{base:0{DIGITS}d}{SEGMENT}"


def index(base: int) -> str:
    return f"{base:0{DIGITS}d}{INDEX}"


def volume_base(number: int) -> int:
    """The position of its first byte."""
    return VOLUMES_FROM + number * VOLUME_SPAN


def volume_at(position: int) -> int:
    """The number of the volume that holds this position."""
    return (position - VOLUMES_FROM) // VOLUME_SPAN


@lru_cache(1024)
def volume(number: int) -> str:
    return f"{number:0{DIGITS}d}{VOLUME}"


def volume_index(number: int) -> str:
    return f"{number:0{DIGITS}d}{VOLUME_INDEX}"


def data_at(base: int) -> str:
    """Of the segment or volume that begins at this position."""
    return volume(volume_at(base)) if base >= VOLUMES_FROM else segment(base)


def index_at(base: int) -> str:
    return volume_index(volume_at(base)) if base >= VOLUMES_FROM else index(base)


def checkpoint(position: int) -> str:
    return f"{position:0{DIGITS}d}{CHECKPOINT}"


def is_of_a_lane(name: str) -> bool:
    """Whether a file is called as one of a lane, or as what lies beside them in a data folder."""
    known = (LOCK, NOTE, FORMAT, PREALLOCATED, BALLAST, LANES, VOLUMES)
    return name in known or name.endswith((SEGMENT, INDEX, CHECKPOINT, VOLUME, VOLUME_INDEX))


def positions(names: list[str], suffix: str) -> list[int]:
    """The positions in the names that end so, rising."""
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return sorted(int(stem) for stem in stems if len(stem) == DIGITS and stem.isdecimal())
