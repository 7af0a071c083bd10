"""What can be chosen about a journal, and the sizes that follow from it."""

from dataclasses import dataclass, field

from semel.errors import ConfigError
from semel.journal.frames import HEADER_SIZE
from semel.journal.seam import Limits

MIB = 1 << 20
SEGMENT_BYTES_MIN = 4096


@dataclass(frozen=True, slots=True)
class JournalSettings:
    segment_bytes: int = 64 * MIB
    """Allocated for each segment; a frame never crosses from one to the next."""

    headroom_bytes: int | None = None
    """Kept on a full disk for ends and opens; None: a sixteenth of a segment, 1 MiB at most."""

    flush_interval_ms: int = 5
    """How long written bytes stay unsynced when no one waits for them."""

    group_commit: bool = True
    """False: each sync releases the first waiter alone, to measure what grouping is worth."""

    allocation_retry_ms: int = 100
    """How often a full disk is asked for the next segment again."""

    tail_bytes: int = 8 * MIB
    """Memory for the newest frames, which are read without the device."""

    headroom: int = field(init=False)

    opening_bytes: int = field(init=False)
    """The part of the headroom that only opening the journal may use."""

    payload_bytes_max: int = field(init=False)
    """The largest payload that a segment can take and leave the headroom."""

    smallest_segment_bytes: int = field(init=False)
    """A full disk is asked for less than a segment, down to this."""

    ballast_bytes: int = field(init=False)
    """Allocated for nothing, so that a full disk has them for what gives back more. As much is
    left free besides, by all that the journal allocates when room is short."""

    def __post_init__(self) -> None:
        if self.segment_bytes < SEGMENT_BYTES_MIN:
            raise ConfigError(
                f"a segment of {self.segment_bytes} bytes: {SEGMENT_BYTES_MIN} at least"
            )
        headroom = self.headroom_bytes
        if headroom is None:
            headroom = min(MIB, self.segment_bytes // 16)
        payload_bytes_max = self.segment_bytes - headroom - HEADER_SIZE
        if payload_bytes_max <= 0:
            raise ConfigError(f"headroom of {headroom} bytes leaves no room in a segment")
        object.__setattr__(self, "headroom", headroom)
        object.__setattr__(self, "opening_bytes", headroom // 5)
        object.__setattr__(self, "payload_bytes_max", payload_bytes_max)
        smallest = min(max(2 * headroom, SEGMENT_BYTES_MIN), self.segment_bytes)
        object.__setattr__(self, "smallest_segment_bytes", smallest)
        object.__setattr__(self, "ballast_bytes", max(smallest, self.segment_bytes // 8))

    @property
    def limits(self) -> Limits:
        return Limits(
            self.payload_bytes_max,
            f"journal.segment.bytes={self.segment_bytes}",
            self.headroom,
            self.opening_bytes,
        )
