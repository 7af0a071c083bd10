"""What there is of each topic, and what was written to and read from it since the start."""

from typing import Final, NamedTuple


class TopicSize(NamedTuple):
    """As of the last round of retention."""

    name: str
    byte_count: int
    """Of the batches that are shown."""
    record_count: int
    """Offsets between the ends of its partitions."""


class TopicCounts:
    __slots__ = ("bytes_in", "bytes_out", "number", "records_in")

    def __init__(self) -> None:
        self.bytes_in = 0
        """Of batches that were stored: retries are not stored again."""
        self.records_in = 0
        self.bytes_out = 0
        self.number = -1
        """In the order in which topics came."""


NO_COUNTS: Final = TopicCounts()
"""Of no topic: nothing is counted there."""
