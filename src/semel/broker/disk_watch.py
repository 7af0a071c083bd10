"""Says in the log that the disk is filling, before writes are refused, and when that is over."""

from typing import TYPE_CHECKING, Final

from semel.broker import log

if TYPE_CHECKING:
    from semel.broker.broker import Broker

SHARE: Final = 20
"""Of the disk: when less than this part of it is left, it is filling."""
ENOUGH_BYTES: Final = 10 * 2**30
"""Whatever the share: on a large disk this is enough."""
SEGMENTS: Final = 4
"""Of the journal, for which there should be room: fewer are soon full."""


class DiskWatch:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._is_filling = False

    def look(self) -> None:
        total_bytes, free_bytes = self._broker.disk_bytes()
        if total_bytes < 0:
            return  # There is none.
        least_bytes = max(
            SEGMENTS * self._broker.config.journal_segment_bytes,
            min(total_bytes // SHARE, ENOUGH_BYTES),
        )
        if not self._is_filling and free_bytes < least_bytes:
            self._is_filling = True
            log.warning(
                "the disk is filling: when it is full, writes are refused until something is "
                "deleted, by retention or by hand",
                free_bytes=free_bytes,
                disk_bytes=total_bytes,
                folder=self._broker.data_folder,
                largest_topics=self._broker.metrics.largest_topics(),
            )
        # Somewhat more than what it was said at, so that it is not said again and again.
        elif self._is_filling and free_bytes > least_bytes + least_bytes // 4:
            self._is_filling = False
            log.info("the disk is no longer filling", free_bytes=free_bytes)
