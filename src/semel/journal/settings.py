"""What can be chosen about a journal."""

from dataclasses import dataclass

from semel.errors import ConfigError
from semel.journal.frames import HEADER_SIZE

MIB = 1 << 20
SEGMENT_BYTES_MIN = 4096


@dataclass(frozen=True, slots=True)
class JournalSettings:
    segment_bytes: int = 64 * MIB
    """Allocated for each segment; a frame never crosses from one to the next."""

    headroom_bytes: int | None = None
    """Kept for urgent frames on a full disk; None: a sixteenth of a segment, 1 MiB at most."""

    flush_interval_ms: int = 5
    """How long written bytes stay unsynced when no one waits for them."""

    group_commit: bool = True
    """False: each sync releases the first waiter alone, to measure what grouping is worth."""

    allocation_retry_ms: int = 100
    """How often a full disk is asked for the next segment again."""

    def __post_init__(self) -> None:
        if self.segment_bytes < SEGMENT_BYTES_MIN:
            raise ConfigError(
                f"a segment of {self.segment_bytes} bytes: {SEGMENT_BYTES_MIN} at least"
            )
        if self.payload_bytes_max <= 0:
            raise ConfigError(
                f"headroom of {self.headroom_bytes} bytes leaves no room in a segment"
            )

    @property
    def headroom(self) -> int:
        if self.headroom_bytes is not None:
            return self.headroom_bytes
        return min(MIB, self.segment_bytes // 16)

    @property
    def payload_bytes_max(self) -> int:
        """The largest payload that any frame may have."""
        return self.segment_bytes - self.headroom - HEADER_SIZE
