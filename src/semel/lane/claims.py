"""What a step may claim of the journal's room, and what it must leave to others.

On a full disk three things must still be possible: to open the journal, to end every transaction
that is open, and to end what else can be ended. The bytes of the second are known: they are owed
from the moment a partition joins. Law: whatever is appended that is not owed leaves room for all
that is owed, and for the next process to open the journal.
"""

import enum

from semel.journal.seam import Limits


class Claim(enum.Enum):
    ORDINARY = enum.auto()
    """Whatever begins something or adds to it. It leaves the whole headroom."""
    ENDING = enum.auto()
    """What ends or frees something that is there, so that it cannot be repeated for ever, and where
    a clock was set to. It uses the headroom, but for the part that opening needs."""
    OWED = enum.auto()
    """The end of an open transaction, and opening. All there is may be used."""


def kept_size(claim: Claim, owed_size: int, limits: Limits) -> int:
    """Bytes of frames that must fit behind a step, if `owed_size` bytes are owed then."""
    if claim is Claim.ORDINARY:
        return limits.headroom + owed_size
    return 0 if claim is Claim.OWED else limits.opening_bytes + owed_size
