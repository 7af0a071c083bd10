"""The names of the journal's files: each carries the position where its content begins or holds."""

from functools import lru_cache

LOCK = "lock"
NOTE = "note"
FORMAT = "format"
PREALLOCATED = "prepared"  # The name it has on disks.
TEMPORARY = ".tmp"
SEGMENT = ".segment"
INDEX = ".index"
CHECKPOINT = ".checkpoint"

DIGITS = 20


@lru_cache(1024)
def segment(base: int) -> str:
    return f"{base:0{DIGITS}d}{SEGMENT}"


def index(base: int) -> str:
    return f"{base:0{DIGITS}d}{INDEX}"


def checkpoint(position: int) -> str:
    return f"{position:0{DIGITS}d}{CHECKPOINT}"


def positions(names: list[str], suffix: str) -> list[int]:
    """The positions in the names that end so, rising."""
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return sorted(int(stem) for stem in stems if len(stem) == DIGITS and stem.isdecimal())
