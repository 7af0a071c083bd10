"""Where a lane's objects lie in the store.

j/<lane>/<slot>           an entry of the journal
ck/<lane>/<slot>          a checkpoint: the state of all slots before this one
ix/<lane>/<base>-<end>    the batch index of a stretch of the journal
"""

from collections.abc import Iterable
from typing import Final

from semel.store.seam import StoredObject

SLOT_DIGITS: Final = 12
POSITION_DIGITS: Final = 20


def slots(lane: int) -> str:
    return f"j/{lane:04x}/"


def slot(lane: int, number: int) -> str:
    return f"j/{lane:04x}/{number:0{SLOT_DIGITS}d}"


def checkpoints(lane: int) -> str:
    return f"ck/{lane:04x}/"


def checkpoint(lane: int, number: int) -> str:
    return f"ck/{lane:04x}/{number:0{SLOT_DIGITS}d}"


def index(lane: int, base: int, end: int) -> str:
    """Named by its end as well: whoever replays may divide the journal otherwise."""
    return f"ix/{lane:04x}/{base:0{POSITION_DIGITS}d}-{end:0{POSITION_DIGITS}d}"


def reused(lane: int) -> tuple[str, ...]:
    """Folders whose keys may have held something else before, or in another's eyes."""
    return slots(lane), f"ix/{lane:04x}/"


def numbers(found: Iterable[StoredObject]) -> list[int]:
    """The slots in the keys of entries or checkpoints, rising; other keys are nobody's here."""
    tails = (each.key.rpartition("/")[2] for each in found)
    return sorted(int(tail) for tail in tails if len(tail) == SLOT_DIGITS and tail.isdecimal())
