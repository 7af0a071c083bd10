"""The pace of a member: how many records it takes at a time, and which one was too slow.

A member that stays away from its group for longer than `max_poll_interval_ms` has lost its
partitions, and cannot commit what it did. Whatever it took that long for comes again and takes as
long again; so it takes less at a time, until one record is to blame.
"""

from semel.app.cycle import CycleOutcome
from semel.app.listener import Listener
from semel.app.payload import CallShape
from semel.app.portion import Portion
from semel.client.consuming.record import Record
from semel.client.consuming.settings import settings_of

_COUNT_FIRST = 16


class TookTooLong(TimeoutError):
    """A call for which the group did not wait."""


class Pace:
    def __init__(self, listener: Listener) -> None:
        settings = settings_of(listener.group, listener.consumer_options)
        self._away_ms_max = settings.max_poll_interval_ms
        self._is_one_by_one = listener.shape is CallShape.RECORD
        self._cycle_ms_max = listener.cycle_ms_max
        self._records_max = listener.records_max
        self.count_max = listener.records_max
        if self._is_one_by_one:
            self.count_max = min(_COUNT_FIRST, listener.records_max)

    def adapt(self, portion: Portion, outcome: CycleOutcome, took_ms: float) -> None:
        """As many records at a time as can be worked on in the time of a cycle."""
        wanted_ms = self._cycle_ms_max if self._is_one_by_one else self._away_ms_max / 2
        if took_ms > self._away_ms_max:
            self.count_max = max(1, portion.record_count // 2)
        elif self._is_one_by_one and took_ms > wanted_ms:
            self.count_max = max(1, outcome.done_count)
        elif took_ms < wanted_ms / 2 and portion.record_count == self.count_max:
            self.count_max = min(2 * self.count_max, self._records_max)

    def too_slow(self, portion: Portion, outcome: CycleOutcome, took_ms: float) -> Record | None:
        """The record that took longer than the group waits, if that is sure."""
        if portion.record_count == 1 and took_ms > self._away_ms_max:
            return portion.records()[0]
        # No call begins after the time of a cycle, so that the rest of it went to the last one.
        return outcome.last if took_ms > self._away_ms_max + self._cycle_ms_max else None

    def complaint(self) -> TookTooLong:
        return TookTooLong(
            "the call took longer than max_poll_interval_ms, "
            f"{self._away_ms_max} ms, and the group went on without this member"
        )
