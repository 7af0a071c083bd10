"""Says in the log that the disk is filling, before writes are refused, and when that is over."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from semel.broker import log
from semel.broker.retention import TOPICS_TOLD

if TYPE_CHECKING:
    from semel.broker.broker import Broker

SHARE: Final = 20
"""Of the disk: when less than this part of it is left, it is filling."""
ENOUGH_BYTES: Final = 10 * 2**30
"""Whatever the share: on a large disk this is enough."""
SEGMENTS: Final = 4
"""Of the journal, for which there should be room: fewer are soon full."""
EIGHTHS_ALLOCATED: Final = 17
"""Of a segment, from the start on: two of them, and the ballast."""


class DiskWatch:
    def __init__(
        self,
        broker: "Broker",
        measure: Callable[[], Awaitable[None]],
        start_task: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._broker = broker
        self._measure = measure
        """How much there is of each topic."""
        self._start_task = start_task
        self._is_filling = False
        self._has_looked = False
        self._free_bytes_before: int | None = None
        """When it was last looked at."""

    def look(self) -> None:
        total_bytes, free_bytes = self._broker.disk_bytes()
        if total_bytes < 0:
            return  # There is none.
        segment_bytes = self._broker.config.journal_segment_bytes
        left_bytes = max(0, total_bytes - segment_bytes * EIGHTHS_ALLOCATED // 8)
        wanted_bytes = SEGMENTS * segment_bytes
        if left_bytes < wanted_bytes and not self._has_looked:
            log.warning(
                "the disk is small for its journal files: two and the ballast are always "
                "allocated; a smaller journal.segment.bytes leaves more of it to records",
                disk_bytes=total_bytes,
                left_bytes=left_bytes,
                journal_segment_bytes=segment_bytes,
                folder=self._broker.data_folder,
            )
        self._has_looked = True
        # An empty disk is not filling, however small it is.
        least_bytes = max(
            min(wanted_bytes, left_bytes // 2), min(total_bytes // SHARE, ENOUGH_BYTES)
        )
        is_short = self._broker.is_short_of_room
        # Where it goes on like this, there may be nothing left to warn of at the next look.
        taken_bytes = max(0, (self._free_bytes_before or free_bytes) - free_bytes)
        self._free_bytes_before = free_bytes
        if not self._is_filling and (is_short or free_bytes - taken_bytes < least_bytes):
            self._is_filling = True
            self._start_task(self._say())
        # Somewhat more than what it was said at, so that it is not said again and again.
        elif self._is_filling and not is_short and free_bytes > least_bytes + least_bytes // 4:
            self._is_filling = False
            log.info("the disk is no longer filling", free_bytes=free_bytes)

    async def _say(self) -> None:
        # The last round may be long ago, or there was none yet.
        await self._measure()
        total_bytes, free_bytes = self._broker.disk_bytes()
        metrics = self._broker.metrics
        log.warning(
            "the disk is filling: when it is full, writes are refused until something is "
            "deleted, by retention or by hand",
            free_bytes=free_bytes,
            disk_bytes=total_bytes,
            folder=self._broker.data_folder,
            topic_bytes_sum=metrics.topic_bytes_sum,
            largest_topics={
                each.name: each.byte_count for each in metrics.largest_topics[:TOPICS_TOLD]
            },
        )
