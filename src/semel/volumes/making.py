"""Who makes a volume: a process of its own, so that the loop is never held up, or nobody but us.

A thread that computes takes the interpreter from the loop; a process at the lowest priority does
not. Where others leave it so little that the folder grows, it is as important as they are. It ends
with the broker: it hears that through a pipe.
"""

import asyncio
import contextlib
import os
import select
import sys
from pathlib import Path
from typing import Final, Protocol

import msgspec

from semel.errors import CorruptJournal
from semel.journal.file.device import Device, Job, finish
from semel.journal.file.disk import FileDevice
from semel.volumes.plans import (
    CompactionPlan,
    Made,
    MeasuringPlan,
    SettlingPlan,
    SourceSize,
    UnreadableBatch,
)
from semel.volumes.ranges import Range, RangesPlan, needed
from semel.volumes.writing import Steps, compact, measure, write
from semel.world import SystemClock

BYTES_PER_S_MIN: Final = 32 * 2**20
NICENESS: Final = 19
"""Of a process that nobody waits for."""
_STDIN: Final = 0


class Order(msgspec.Struct, frozen=True, array_like=True):
    """What a worker is told."""

    folder: str
    bytes_per_s: int
    plan: SettlingPlan | CompactionPlan | MeasuringPlan | RangesPlan
    is_synced: bool = True
    niceness: int = NICENESS


class Refusal(msgspec.Struct, frozen=True, array_like=True, tag=True):
    reason: str
    is_damage: bool
    """Of what it was to be made from."""
    unreadable: int | None = None
    """The partition of a batch that the disk does not give, if it is for this."""


class Success(msgspec.Struct, frozen=True, array_like=True, tag=True):
    made: Made


class Measured(msgspec.Struct, frozen=True, array_like=True, tag=True):
    extents: list[SourceSize]


class Needed(msgspec.Struct, frozen=True, array_like=True, tag=True):
    ranges: list[Range]


Answer = Refusal | Success | Measured | Needed

_encode = msgspec.msgpack.encode


class VolumeMaker(Protocol):
    has_far_sources: bool
    """To look at one costs so much that none is named in vain."""
    bytes_per_s: int
    """That it writes at most, so that others have the disk too."""
    niceness: int
    """By which it leaves the processors to others: 0 if it is as important as they are."""

    async def make(self, plan: SettlingPlan) -> Made:
        """The volume, under its temporary names, durable. Raises CorruptJournal, OSError."""

    async def compact(self, plan: CompactionPlan) -> Made:
        """As `make`, of what compaction leaves."""

    async def measure(self, plan: MeasuringPlan) -> list[SourceSize]:
        """What of its sources lives. Raises CorruptJournal, OSError."""


class MakesNone:
    has_far_sources = False
    bytes_per_s = BYTES_PER_S_MIN
    niceness = NICENESS

    async def make(self, plan: SettlingPlan) -> Made:
        raise OSError("nobody makes volumes here")

    async def compact(self, plan: CompactionPlan) -> Made:
        raise OSError("nobody makes volumes here")

    async def measure(self, plan: MeasuringPlan) -> list[SourceSize]:
        raise OSError("nobody makes volumes here")


class MakesHere:
    """In this process, step by step between other work; for devices that no other can reach."""

    has_far_sources = False

    def __init__(self, device: Device) -> None:
        self._device = device
        self.bytes_per_s = BYTES_PER_S_MIN
        self.niceness = NICENESS

    async def make(self, plan: SettlingPlan) -> Made:
        return await self._run(write(self._device, plan))

    async def compact(self, plan: CompactionPlan) -> Made:
        return await self._run(compact(self._device, plan))

    async def _run(self, steps: Steps) -> Made:
        made: list[Made] = []

        def job() -> Job:
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    made.append(end.value)
                    return
                yield

        await finish(self._device, job())
        return made[0]

    async def measure(self, plan: MeasuringPlan) -> list[SourceSize]:
        return measure(self._device, plan)

    async def needed(self, plan: SettlingPlan | CompactionPlan) -> list[Range]:
        return needed(self._device, plan)


class MakesApart:
    """In a process of its own."""

    has_far_sources = False

    def __init__(self, folder: str, *, synced: bool = True) -> None:
        """Without a sync if what is made lasts only when it lies elsewhere."""
        self._folder = folder
        self._synced = synced
        self.bytes_per_s = BYTES_PER_S_MIN
        self.niceness = NICENESS

    async def make(self, plan: SettlingPlan) -> Made:
        return await self._made(plan)

    async def compact(self, plan: CompactionPlan) -> Made:
        return await self._made(plan)

    async def _made(self, plan: SettlingPlan | CompactionPlan) -> Made:
        answer = await self._ask(plan)
        assert isinstance(answer, Success)
        return answer.made

    async def measure(self, plan: MeasuringPlan) -> list[SourceSize]:
        answer = await self._ask(plan)
        assert isinstance(answer, Measured)
        return answer.extents

    async def needed(self, plan: SettlingPlan | CompactionPlan) -> list[Range]:
        answer = await self._ask(RangesPlan(plan))
        assert isinstance(answer, Needed)
        return answer.ranges

    async def _ask(
        self, plan: SettlingPlan | CompactionPlan | MeasuringPlan | RangesPlan
    ) -> Answer:
        order = Order(self._folder, self.bytes_per_s, plan, self._synced, self.niceness)
        worker = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "from semel.volumes.making import work; work()",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # A terminal tells the broker to end, which then ends this.
            start_new_session=True,
        )
        try:
            answer = await self._converse(worker, order)
        except BaseException:
            # Whoever is cancelled here leaves nobody behind.
            with contextlib.suppress(ProcessLookupError):
                worker.kill()
            raise
        finally:
            await worker.wait()
        if isinstance(answer, Refusal):
            if answer.unreadable is not None:
                raise UnreadableBatch(answer.reason, answer.unreadable)
            raise CorruptJournal(answer.reason) if answer.is_damage else OSError(answer.reason)
        return answer

    async def _converse(self, worker: asyncio.subprocess.Process, order: Order) -> Answer:
        assert worker.stdin is not None
        assert worker.stdout is not None
        told = await asyncio.to_thread(_encode, order)
        worker.stdin.write(len(told).to_bytes(8, "big"))
        worker.stdin.write(told)
        await worker.stdin.drain()
        said = await worker.stdout.read()
        if not said:
            raise OSError("the process that makes volumes has ended")
        answer: Answer = msgspec.msgpack.decode(said, type=Answer)
        return answer


# In that process.


def work() -> None:
    """Read one order, carry it out, say what came of it."""
    size = int.from_bytes(sys.stdin.buffer.read(8), "big")
    told = sys.stdin.buffer.read(size)
    if len(told) != size or not size:
        return
    order: Order = msgspec.msgpack.decode(told, type=Order)
    os.nice(order.niceness)
    answer: Answer
    device = FileDevice(Path(order.folder), synced=order.is_synced)
    try:
        match order.plan:
            case SettlingPlan():
                answer = Success(_make(write(device, order.plan), order.bytes_per_s))
            case CompactionPlan():
                answer = Success(_make(compact(device, order.plan), order.bytes_per_s))
            case MeasuringPlan():
                answer = Measured(measure(device, order.plan))
            case RangesPlan():
                answer = Needed(needed(device, order.plan.plan))
    except UnreadableBatch as error:
        answer = Refusal(str(error), is_damage=True, unreadable=error.number)
    except CorruptJournal as error:
        answer = Refusal(str(error), is_damage=True)
    except OSError as error:
        answer = Refusal(str(error), is_damage=False)
    with contextlib.suppress(BrokenPipeError):  # Nobody is there to hear it.
        sys.stdout.buffer.write(_encode(answer))
        sys.stdout.buffer.flush()


def _make(steps: Steps, bytes_per_s: int) -> Made:
    """No faster than that."""
    clock = SystemClock()
    begun_ms = clock.monotonic_ms()
    byte_count = 0
    while True:
        try:
            byte_count += next(steps)
        except StopIteration as done:
            made: Made = done.value
            return made
        passed_s = (clock.monotonic_ms() - begun_ms) / 1000
        ahead_s = byte_count / bytes_per_s - passed_s
        # Nothing more is ever said here: what can be read is that the broker has ended.
        if select.select([_STDIN], [], [], max(0.0, ahead_s))[0]:
            sys.exit(1)
