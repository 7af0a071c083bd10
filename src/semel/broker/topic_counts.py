"""What was written to and read from each topic since this process started."""

from typing import Final


class TopicCounts:
    __slots__ = ("bytes_in", "bytes_out", "records_in")

    def __init__(self) -> None:
        self.bytes_in = 0
        """Of batches that were stored: retries are not stored again."""
        self.records_in = 0
        self.bytes_out = 0


NO_COUNTS: Final = TopicCounts()
"""Of no topic: nothing is counted there."""
