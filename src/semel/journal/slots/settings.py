"""What can be chosen about a journal on a store, and the sizes that follow from it."""

from dataclasses import dataclass
from typing import Final

from semel.errors import ConfigError
from semel.journal.frames import HEADER_SIZE
from semel.journal.seam import Limits
from semel.journal.slots.entries import ENTRY_HEADER_SIZE

MIB: Final = 1 << 20
FRAME_BYTES_MAX: Final = 8 * MIB
SLOT_BYTES_MIN: Final = 1024
PUTS_AT_ONCE_MAX: Final = 8
"""So many slots, from the first that it has not confirmed, a leader may be writing to at most. What
is left of it then lies within so many from the next fence on: no version may go beyond."""
HEADROOM_SHARE: Final = 16
"""Of the bytes that may be unconfirmed: kept for the ends of what is open."""
BACKLOG_SHARE: Final = 3 / 4
"""Of these: producers are let in until so much waits. They bring one read more each, one after the
other; with less under way, a store that takes its time would have less to do than it can."""


@dataclass(frozen=True, slots=True)
class SlotSettings:
    slot_bytes: int = 16 * MIB
    """The largest slot, which is one PUT."""

    puts_at_once: int = 4
    """Slots that are created at the same time, while so much waits that each is worth it:"""

    ahead_bytes: int = 4 * MIB
    """what a PUT beside others that are under way carries at least. Less waits for these, as it
    would be no sooner durable behind them, and costs one PUT with what comes after it."""

    stretch_bytes: int = 64 * MIB
    """What is settled at once: so much of the journal has one index."""

    checkpoint_slots: int = 1024
    """Behind so many there is a new checkpoint, so that whoever takes the lane reads few."""

    unconfirmed_bytes: int = 64 * MIB
    """Appended and not yet durable. When the store is away for longer, appending is refused as on a
    full disk, so that memory is bounded and clients hear that they should try again."""

    tail_bytes: int = 8 * MIB
    """Memory for the newest frames, which are read without the store."""

    cache_bytes: int = 32 * MIB
    """Memory for older ones that were read."""

    linger_ms: int = 0
    """How long a slot waits for more before it is created: fewer PUTs for more delay."""

    flush_interval_ms: int = 100
    """A slot that nobody waits for is created so long after its first byte, if it is not full
    before: a PUT that is under way is in the way of a commit."""

    attempt_s: float = 10.0
    """A call of the store that takes longer is taken for one that failed."""

    retry_s_min: float = 0.05
    retry_s_max: float = 2.0
    """From the first to the last wait before a call is tried again."""

    barrier_s: float | None = 6.0
    """Who has waited so long for a barrier steps down: the detection time. None: never."""

    free_s: float = 4.0
    """A slot that is free for so long to who follows may have been collected (rule 32). Less than
    the detection time, or it would fence it first."""

    gap_s: float = 2.0
    """What counts at most as silence between two reads of who follows: who was frozen has seen
    nothing."""

    reads_at_once: int = 32
    """GETs under way when a lane is taken…"""

    read_bytes_at_once: int = 64 * MIB
    """…and what they bring together, unless one alone brings more."""

    def __post_init__(self) -> None:
        if self.slot_bytes < SLOT_BYTES_MIN:
            raise ConfigError(f"a slot of {self.slot_bytes} bytes: {SLOT_BYTES_MIN} at least")
        if not 1 <= self.puts_at_once <= PUTS_AT_ONCE_MAX:
            raise ConfigError(f"{self.puts_at_once} PUTs at once: 1 to {PUTS_AT_ONCE_MAX}")
        if self.unconfirmed_bytes < 2 * self.slot_bytes:
            raise ConfigError(
                f"{self.unconfirmed_bytes} unconfirmed bytes: two slots of {self.slot_bytes} "
                "at least"
            )

    @property
    def payload_bytes_max(self) -> int:
        """Of a frame that has a slot to itself (rule 37)."""
        return min(self.slot_bytes, FRAME_BYTES_MAX) - ENTRY_HEADER_SIZE - HEADER_SIZE

    @property
    def limits(self) -> Limits:
        headroom = self.unconfirmed_bytes // HEADROOM_SHARE
        return Limits(
            self.payload_bytes_max,
            f"a frame of {min(self.slot_bytes, FRAME_BYTES_MAX)} bytes",
            headroom,
            headroom // 5,
            int(self.unconfirmed_bytes * BACKLOG_SHARE),
        )
