"""What `semel consume` prints, and how it reads as a member of a group."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

from semel.cli.record_format import Printer
from semel.client.consuming.asynchronous import AsyncConsumer
from semel.client.consuming.record import Record
from semel.types import TopicPartition

_POLLED_MAX = 5_000
WAIT_MS = 5_000
_POLL_MS = 500


class Printout:
    """Writes records until enough are written."""

    def __init__(
        self, show: Printer, stops: Mapping[TopicPartition, int], count_max: int | None
    ) -> None:
        self._show = show
        self._stops = stops
        self._left = count_max
        self.passed: set[TopicPartition] = set()
        """Partitions with records behind their stops."""

    @property
    def is_full(self) -> bool:
        return self._left == 0

    @property
    def room(self) -> int:
        return _POLLED_MAX if self._left is None else min(self._left, _POLLED_MAX)

    def write(self, records: Iterable[Record]) -> None:
        """Those before the offset where their partition is to stop."""
        out = sys.stdout.buffer
        for record in records:
            stop = self._stops.get(record.topic_partition)
            if stop is not None and record.offset >= stop:
                self.passed.add(record.topic_partition)
                continue
            out.write(self._show(record))
            if self._left is not None:
                self._left -= 1
        out.flush()


def cancelled_by_sigterm() -> None:
    """Let SIGTERM end this task as Ctrl-C does, so that a member leaves its group: the others would
    wait for it until its session times out. A second one ends the process at once."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "this is called within one"

    def cancel() -> None:
        loop.remove_signal_handler(signal.SIGTERM)
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, cancel)


async def print_for_group(
    consumer: AsyncConsumer,
    stops: Mapping[TopicPartition, int] | None,
    printout: Printout,
    check: Callable[[], Awaitable[object]],
) -> None:
    """Until enough is printed, or all before these stops of what the group gives to this member."""
    try:
        while not printout.is_full:
            records = await consumer.poll(WAIT_MS if stops is None else _POLL_MS, printout.room)
            printout.write(records)
            if stops is not None and await _are_reached(consumer, stops, printout.passed):
                return
            if not records:
                await check()
    except asyncio.CancelledError:
        # Whoever has had enough has seen what was printed.
        await consumer.commit()
        raise


async def _are_reached(
    consumer: AsyncConsumer, stops: Mapping[TopicPartition, int], passed: Collection[TopicPartition]
) -> bool:
    """Let go of what is behind the stops: it is not printed, and so not to be committed."""
    assigned = consumer.assignment
    for partition in assigned - consumer.paused:
        stop = stops.get(partition, 0)
        if await consumer.position(partition) >= stop:
            consumer.pause([partition])
            if partition in passed:
                consumer.seek(partition, stop)
    return bool(assigned) and assigned <= consumer.paused
