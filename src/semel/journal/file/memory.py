"""A disk in memory, for simulation: it loses, tears, reorders and fails on command.

It takes seeded time for all it does. The law of the model: synced bytes stay, unless a bit is
flipped on purpose. A kill loses what the process had not handed over; a power loss also takes any
part of what was not synced, in any order, by the page.
"""

import asyncio
import errno
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from semel.errors import FolderInUse
from semel.journal.file.device import DiskIdentity, Done, DoneReading, Job, closed
from semel.journal.file.memory_file import MemoryFile
from semel.types import Buffer

DELAY_S_MEAN = 0.001
UNLIMITED_BYTES = 2**60


class Killed(BaseException):
    """The simulated process dies in the middle of a blocking call."""


class MemoryDevice:
    def __init__(self, rng: Random) -> None:
        self.is_full = False
        """Nothing more can be allocated."""
        self.capacity_bytes: int | None = None
        """What all files together may take; None: as much as is asked for."""
        self.fails_next_sync = False
        """Once: EIO. The pages may be dropped, yet look clean."""
        self.fails_next_write = False
        """Once: EIO, after a part of it was written."""
        self.calls_left: int | None = None
        """Blocking calls until the process is killed in one."""
        self.is_synced = True
        """False plants a bug: a disk that lies about its syncs."""
        self.is_cold = False
        """Every read has to wait for the disk."""
        self._rng = rng
        self._boot_count = 1
        self._process = 0
        self._is_held = False
        self._takes_reads = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._files: dict[str, MemoryFile] = {}
        self._folder_on_disk: dict[str, MemoryFile] = {}
        self._folder_history: list[dict[str, MemoryFile]] = []
        """The folder after each change since its last sync."""
        self._write_under_way: tuple[str, int, bytes] | None = None
        self._reads: dict[Callable[[], None], Callable[[], None]] = {}
        """Those under way, and what answers each if it never lands."""

    # Crashes and faults.

    def kill(self) -> None:
        """The process ends; the kernel keeps what it was given, maybe a part of the last write."""
        if self._write_under_way is not None:
            name, offset, content = self._write_under_way
            cut = self._rng.choice((0, self._rng.randint(0, len(content)), len(content)))
            self._files[name].write(offset, content[:cut])
        # Nobody is left who could hear of it.
        self._reads.clear()
        self.stop()

    def power_loss(self) -> None:
        """The machine ends; what was not synced stays in part, or not at all."""
        self.kill()
        self._boot_count += 1
        history = [self._folder_on_disk, *self._folder_history]
        self._files = dict(self._rng.choice(history))
        self._folder_on_disk = dict(self._files)
        self._folder_history = []
        for _, file in sorted(self._files.items()):
            file.lose_power(self._rng)

    def flip_bit(self, name: str, offset: int, bit: int = 0) -> None:
        self._files[name].flip_bit(offset, bit)

    # The blocking half.

    def acquire(self) -> None:
        if self._is_held:
            raise FolderInUse("another broker is using this memory")
        self._is_held = True
        self._takes_reads = True

    def identity(self) -> DiskIdentity:
        return DiskIdentity(boot_id=str(self._boot_count), device="memory", inode="1", mount="1")

    def names(self) -> list[str]:
        return sorted(self._files)

    def size(self, name: str) -> int:
        return len(self._file(name).content)

    def free_bytes(self) -> int:
        if self.is_full:
            return 0
        if self.capacity_bytes is None:
            return UNLIMITED_BYTES
        used = sum(len(file.content) for file in self._files.values())
        return max(0, self.capacity_bytes - used)

    def allocate(self, name: str, size: int) -> None:
        self._call()
        file = self._files.get(name)
        self._need(name, size - (0 if file is None else len(file.content)))
        if file is None:
            file = self._link(name)
        if len(file.content) < size:
            file.resize(size)

    def create(self, name: str) -> None:
        self._call()
        self._link(name)

    def read(self, name: str, offset: int, size: int) -> bytes:
        return bytes(self._file(name).content[offset : offset + size])

    def read_back(self, name: str, offset: int, size: int) -> bytes:
        return self.read(name, offset, size)

    def read_now(self, name: str, offset: int, size: int) -> bytes | None:
        return None if self.is_cold else self.read(name, offset, size)

    def next_data(self, name: str, offset: int) -> int:
        return min(offset, self.size(name))

    def write(self, name: str, offset: int, parts: Sequence[Buffer]) -> None:
        self._call()
        file = self._file(name)
        content = b"".join(parts)
        self._need(name, offset + len(content) - len(file.content))
        file.write(offset, content)

    def truncate(self, name: str, size: int) -> None:
        self._call()
        self._file(name).resize(size)

    def sync(self, name: str) -> None:
        self._call()
        self._sync(self._file(name), len(self._file(name).unsynced))

    def rename(self, name: str, successor: str) -> None:
        self._call()
        file = self._file(name)
        self._files = {other: kept for other, kept in self._files.items() if other != name}
        self._files[successor] = file
        self._folder_history.append(self._files)

    def remove(self, name: str) -> None:
        self._call()
        if name in self._files:
            self._files = {other: kept for other, kept in self._files.items() if other != name}
            self._folder_history.append(self._files)

    def sync_folder(self) -> None:
        self._call()
        if self.is_synced:
            self._folder_on_disk = self._files
            self._folder_history = []

    # The running half.

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def submit_write(self, name: str, offset: int, parts: list[Buffer], on_done: Done) -> None:
        content = b"".join(parts)
        failure: OSError | None = None
        if self.fails_next_write:
            self.fails_next_write = False
            content = content[: self._rng.randint(0, len(content))]
            failure = OSError(errno.EIO, "Input/output error", name)
        self._write_under_way = (name, offset, content)

        def land() -> None:
            self._write_under_way = None
            self._file(name).write(offset, content)
            on_done(failure)

        if self._rng.random() < 0.5:
            land()
        else:
            self._later(land)

    def submit_read(self, name: str, offset: int, size: int, on_done: DoneReading) -> None:
        assert self._loop is not None
        if not self._takes_reads:
            self._loop.call_soon(on_done, closed(name))
            return

        def land() -> None:
            try:
                found: bytes | Exception = self.read(name, offset, size)
            except OSError as error:
                found = error
            # Refused meanwhile, if it is not there any more.
            if self._reads.pop(land, None) is not None:
                on_done(found)

        self._reads[land] = partial(on_done, closed(name))
        self._later(land)

    def submit_sync(self, names: Sequence[str], folder: bool, on_done: Done) -> None:
        covered = [(self._file(name), len(self._file(name).unsynced)) for name in names]
        files = self._files

        def land() -> None:
            if self.fails_next_sync:
                self.fails_next_sync = False
                for file, count in covered:
                    file.fail_sync(count, self._rng)
                on_done(OSError(errno.EIO, "Input/output error"))
                return
            for file, count in covered:
                self._sync(file, count)
            if folder and self.is_synced:
                self._sync_folder_of(files)
            on_done(None)

        self._later(land)

    def submit(self, job: Job, on_done: Done) -> "SimulatedJob":
        return SimulatedJob(job, on_done, self._later)

    def retire(self, name: str) -> None:
        pass

    def end_threads(self, on_done: Callable[[], None]) -> None:
        assert self._loop is not None
        self._refuse_reads()
        self._loop.call_soon(on_done)

    def _refuse_reads(self) -> None:
        self._takes_reads = False
        reads, self._reads = self._reads, {}
        for refuse in reads.values():
            assert self._loop is not None
            self._loop.call_soon(refuse)

    def stop(self) -> None:
        self._refuse_reads()
        self._process += 1
        self._write_under_way = None
        self._is_held = False
        self.calls_left = None

    def _file(self, name: str) -> MemoryFile:
        try:
            return self._files[name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "No such file", name) from None

    def _need(self, name: str, size: int) -> None:
        """Raises as a full disk does unless there are `size` bytes more."""
        if size > 0 and size > self.free_bytes():
            raise OSError(errno.ENOSPC, "No space left on device", name)

    def _link(self, name: str) -> MemoryFile:
        file = MemoryFile()
        self._files = {**self._files, name: file}
        self._folder_history.append(self._files)
        return file

    def _sync_folder_of(self, files: dict[str, MemoryFile]) -> None:
        """As it was then; what has changed since may still be lost."""
        for number, then in enumerate(self._folder_history):
            if then is files:
                self._folder_on_disk = files
                del self._folder_history[: number + 1]
                return

    def _sync(self, file: MemoryFile, count: int) -> None:
        if self.is_synced:
            file.sync(count)

    def _call(self) -> None:
        if self.calls_left is not None:
            if self.calls_left == 0:
                raise Killed
            self.calls_left -= 1

    def _later(self, action: Callable[[], None]) -> None:
        """After some simulated time, if the process still lives then."""
        process = self._process

        def act() -> None:
            if process == self._process:
                action()

        assert self._loop is not None
        self._loop.call_later(self._rng.expovariate(1 / DELAY_S_MEAN), act)


class SimulatedJob:
    """One blocking call at a time, so that a crash falls between any two."""

    def __init__(
        self, job: Job, on_done: Done, later: Callable[[Callable[[], None]], None]
    ) -> None:
        self._job = job
        self._on_done: Done | None = on_done
        self._later = later
        later(self._step)

    def finish(self) -> None:
        while self._on_done is not None:
            self._advance()

    def _step(self) -> None:
        self._advance()
        if self._on_done is not None:
            self._later(self._step)

    def _advance(self) -> None:
        if self._on_done is None:
            return
        failure: Exception | None = None
        try:
            next(self._job)
        except StopIteration:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, the journal must hear of it.
            failure = error
        else:
            return
        on_done, self._on_done = self._on_done, None
        on_done(failure)
