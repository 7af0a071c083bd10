"""What `send` returns: the place of a record in a batch whose outcome is not known yet.

Nothing is made for a record that nobody waits for: the batch keeps the outcome, and a future or
a lock comes into being only with the first one who asks.
"""

from collections.abc import Callable
from typing import NamedTuple, Self

from semel.client.producing.batch import ProducerBatch


class Delivered(NamedTuple):
    topic: str
    partition: int
    offset: int
    """-1 where the broker was not asked to answer, or has forgotten the place of a retry."""
    timestamp_ms: int


class Sent:
    """A record that was handed over. Its outcome is that of its batch."""

    __slots__ = ("_batch", "_index", "_timestamp_ms")

    def __init__(self, batch: ProducerBatch, timestamp_ms: int) -> None:
        self._batch = batch
        self._index = batch.record_count - 1
        self._timestamp_ms = timestamp_ms

    def done(self) -> bool:
        return self._batch.is_done

    def exception(self) -> Exception | None:
        """Why it was not stored; None while that is open, and if it was."""
        error = self._batch.error
        if error is not None:
            self._tell()
        return error

    def _tell(self) -> None:
        """Let no `flush` raise what the caller is hearing now."""
        failure = self._batch.failure
        if failure is not None:
            failure.tell(self._index)

    def outcome(self) -> Delivered:
        """Where the record was stored, once that is done; raises what kept it from that."""
        batch = self._batch
        if batch.error is not None:
            self._tell()
            # All records of the batch share it, and would add to its traceback for ever.
            raise batch.error.with_traceback(None)
        assert batch.is_done, "the record is still on its way"
        offset = -1 if batch.base_offset < 0 else batch.base_offset + self._index
        stamped_ms = batch.log_append_time_ms
        timestamp_ms = self._timestamp_ms if stamped_ms < 0 else stamped_ms
        return Delivered(batch.partition.topic, batch.partition.partition, offset, timestamp_ms)

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Called on the producer's loop, and so in a `Producer`'s thread, which may not wait."""

        def call() -> None:
            self._tell()
            callback(self)

        self._when_done(call)

    def _when_done(self, act: Callable[[], object]) -> None:
        """Call this once when the outcome is known: on the producer's loop, or now."""
        self._batch.waiters.append(act)
        # It may have been called already, by the producer's thread.
        if self._batch.is_done and self._give_up(act):
            act()

    def _give_up(self, act: Callable[[], object]) -> bool:
        """Let this not be called; False if it is, or was."""
        try:
            self._batch.waiters.remove(act)
        except ValueError:
            return False
        return True
