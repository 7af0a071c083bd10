"""The journal on a local disk: files in a folder, synced by one dedicated thread."""

import asyncio
import contextlib
import errno
import fcntl
import os
import queue
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path

from semel.errors import ConfigError, FolderInUse, JournalFailed
from semel.journal import names
from semel.journal.file.device import UNKNOWN, DiskIdentity, Done, DoneReading, Job, closed
from semel.journal.file.read_gate import LARGE_SIZE, SMALL_SIZE, ReadGate
from semel.types import Buffer

IOV_MAX = 1024
READERS_MAX = 64
READS_AT_ONCE = 4
"""Reads that wait for the disk; what they bring is held until its client has taken it."""
NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)
BREATH_S = 0.0002
"""Between two steps of a job: who only lets go of the interpreter mostly gets it back at once."""
UNPROBED_SIZE_MAX = 16 * 1024
ZEROS = bytes(1 << 20)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SyncTask = tuple[list[int], bool, Done]


class FileDevice:
    """`synced=False` skips every sync: for data that need not outlive the machine's power."""

    def __init__(self, folder: Path, *, synced: bool = True) -> None:
        if sys.platform not in ("linux", "darwin"):
            raise JournalFailed(
                f"the journal cannot sync files on {sys.platform}: use Linux or macOS"
            )
        self.folder = folder
        self._synced = synced
        self._lock: int | None = None
        self._writers: dict[str, int] = {}
        self._readers: OrderedDict[str, int] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = threading.get_ident()
        self._jobs: list[ThreadJob] = []
        """Those under way, and some that are over."""
        self._sync_tasks: queue.SimpleQueue[_SyncTask | None] = queue.SimpleQueue()
        self._sync_thread: threading.Thread | None = None
        self._cold_readers: ThreadPoolExecutor | None = None
        self._gate = ReadGate()
        self._is_stopped = False
        """No file may be opened any more that nobody would close."""
        self._nowait = NOWAIT
        """None where the system or this file system cannot tell what it has in memory."""

    def acquire(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.folder / names.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            if self._lock is None:
                self.stop()
            raise FolderInUse(f"another broker is using {self.folder}") from None
        self._lock = lock

    def identity(self) -> DiskIdentity:
        status = self.folder.stat()
        return DiskIdentity(
            boot_id=_boot_id(),
            device=str(status.st_dev),
            inode=str(status.st_ino),
            mount=_mount_id(self.folder),
        )

    def names(self) -> list[str]:
        return [entry.name for entry in os.scandir(self.folder) if entry.is_file()]

    def size(self, name: str) -> int:
        return (self.folder / name).stat().st_size

    def free_bytes(self) -> int:
        disk = os.statvfs(self.folder)
        return disk.f_bavail * disk.f_frsize

    def allocate(self, name: str, size: int) -> None:
        descriptor = self._open(name, os.O_RDWR | os.O_CREAT)
        try:
            _allocate(descriptor, size)
        finally:
            os.close(descriptor)

    def create(self, name: str) -> None:
        os.close(self._open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC))

    def read(self, name: str, offset: int, size: int) -> bytes:
        return os.pread(self._reader(name), size, offset)

    def read_back(self, name: str, offset: int, size: int) -> bytes:
        descriptor = self._open(name, os.O_RDONLY)
        try:
            if sys.platform == "linux":
                os.posix_fadvise(descriptor, offset, size, os.POSIX_FADV_DONTNEED)
            return os.pread(descriptor, size, offset)
        finally:
            os.close(descriptor)

    def read_now(self, name: str, offset: int, size: int) -> bytearray | None:
        if self._nowait is None or self._is_stopped:
            return None
        reader = self._reader(name)
        is_calm = self._gate.is_calm
        _advise(reader, reads_ahead=is_calm)
        piece_size = LARGE_SIZE if is_calm else SMALL_SIZE
        try:
            # One byte first: to get a megabyte of memory in vain takes a millisecond. The last,
            # since of what follows an earlier read the beginning was often read ahead.
            if size > UNPROBED_SIZE_MAX:
                os.preadv(reader, [bytearray(1)], offset + size - 1, self._nowait)
            found = bytearray(size)
            with memoryview(found) as room:
                # In pieces, as the kernel begins to read what it does not have of one.
                for start in range(0, size, piece_size):
                    piece = room[start : start + piece_size]
                    # Fewer are there if the rest is on the disk alone, or if the file ends.
                    if os.preadv(reader, [piece], offset + start, self._nowait) != len(piece):
                        return None
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            self._nowait = None
            return None
        return found

    def next_data(self, name: str, offset: int) -> int:
        descriptor = self._reader(name)
        if sys.platform == "linux":
            # Zeros that were read, or read ahead, count as data while they are cached.
            os.posix_fadvise(descriptor, offset, 0, os.POSIX_FADV_DONTNEED)
        try:
            return os.lseek(descriptor, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return self.size(name)

    def write(self, name: str, offset: int, parts: Sequence[Buffer]) -> None:
        descriptor = self._open(name, os.O_WRONLY)
        try:
            _write_all(descriptor, offset, parts)
        finally:
            os.close(descriptor)

    def truncate(self, name: str, size: int) -> None:
        os.truncate(self.folder / name, size)

    def sync(self, name: str) -> None:
        descriptor = self._open(name, os.O_RDWR)
        try:
            self._sync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, name: str, successor: str) -> None:
        (self.folder / name).replace(self.folder / successor)
        self._forget_reader(name)
        self._forget_reader(successor)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)
        self._forget_reader(name)

    def sync_folder(self) -> None:
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._sync(descriptor, whole=True)
        finally:
            os.close(descriptor)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._is_stopped = False
        self._sync_thread = threading.Thread(
            target=self._sync_one_by_one, name="semel-sync", daemon=True
        )
        self._sync_thread.start()
        self._cold_readers = ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="semel-read")

    def submit_read(self, name: str, offset: int, size: int, on_done: DoneReading) -> None:
        assert self._loop is not None
        loop = self._loop
        readers = self._cold_readers
        if self._is_stopped or readers is None:
            loop.call_soon(on_done, closed(name))
            return

        def tell(reading: "Future[Buffer]") -> None:
            """In the thread that has read, or in the one that stops the device."""
            found: Buffer | Exception
            try:
                found = reading.result()
            except CancelledError:
                found = closed(name)
            except Exception as error:  # noqa: BLE001 - whatever it is, who waits must hear of it.
                found = error
            # A closed loop has no one left who waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(on_done, found)

        readers.submit(self._read_apart, name, offset, size).add_done_callback(tell)

    def _read_apart(self, name: str, offset: int, size: int) -> Buffer:
        """Through a descriptor of its own: those at hand are closed by the loop's thread."""
        descriptor = self._open(name, os.O_RDONLY)
        try:
            found = bytearray(size)
            with memoryview(found) as room:
                count = self._read_in_pieces(descriptor, offset, room)
            del found[count:]
            return found
        finally:
            os.close(descriptor)

    def _read_in_pieces(self, descriptor: int, offset: int, room: memoryview) -> int:
        """Returns how many bytes there are, fewer at the end of the file."""
        count = 0
        while count < len(room):
            with self._gate.piece(len(room) - count) as piece:
                _advise(descriptor, reads_ahead=not piece.is_alone)
                piece_room = room[count : count + piece.size]
                piece_count = os.preadv(descriptor, [piece_room], offset + count)
            if not piece_count:
                break
            count += piece_count
        return count

    def submit_write(self, name: str, offset: int, parts: list[Buffer], on_done: Done) -> None:
        try:
            _write_all(self._writer(name), offset, parts)
        except OSError as error:
            on_done(error)
        else:
            on_done(None)

    def submit_sync(self, names: Sequence[str], folder: bool, on_done: Done) -> None:
        if self._synced:
            # The descriptors that wrote, since the kernel reports a failed write-back through them.
            self._gate.sync_begins()
            self._sync_tasks.put(([self._writer(name) for name in names], folder, on_done))
        else:
            assert self._loop is not None
            self._loop.call_soon(on_done, None)

    def submit(self, job: Job, on_done: Done) -> "ThreadJob":
        assert self._loop is not None
        begun = ThreadJob(self._loop, job, on_done)
        self._jobs = [*(each for each in self._jobs if each.is_under_way), begun]
        return begun

    def retire(self, name: str) -> None:
        descriptor = self._writers.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)

    def end_threads(self, on_done: Callable[[], None]) -> None:
        assert self._loop is not None
        loop = self._loop
        self._is_stopped = True

        def end() -> None:
            self._end_threads()
            # A closed loop has no one left who waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(on_done)

        threading.Thread(target=end, name="semel-stop", daemon=True).start()

    def _end_threads(self) -> None:
        """Does no harm if they have ended, nor beside another that ends them."""
        if self._sync_thread is not None:
            self._sync_tasks.put(None)
            self._sync_thread.join()
        if self._cold_readers is not None:
            self._cold_readers.shutdown(cancel_futures=True)

    def stop(self) -> None:
        self._is_stopped = True
        # Whoever has the folder next may use the names that a job is about to give or take.
        for job in self._jobs:
            job.join()
        self._end_threads()
        self._sync_thread = None
        self._cold_readers = None
        for descriptor in (*self._writers.values(), *self._readers.values()):
            os.close(descriptor)
        self._writers.clear()
        self._readers.clear()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _sync_one_by_one(self) -> None:
        assert self._loop is not None
        while (task := self._sync_tasks.get()) is not None:
            descriptors, folder, on_done = task
            failure: OSError | None = None
            try:
                for descriptor in descriptors:
                    self._sync(descriptor)
                if folder:
                    self.sync_folder()
            except OSError as error:
                failure = error
            # A closed loop has no one left who waits.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(on_done, failure)
            self._gate.sync_ends()

    def _sync(self, descriptor: int, *, whole: bool = False) -> None:
        if not self._synced:
            return
        if sys.platform == "darwin":
            # A file system that does not know the full sync still knows the plain one.
            try:
                fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            except OSError:
                os.fsync(descriptor)
        elif whole:
            os.fsync(descriptor)
        else:
            os.fdatasync(descriptor)

    def _open(self, name: str, flags: int) -> int:
        return os.open(self.folder / name, flags | os.O_CLOEXEC, 0o644)

    def _writer(self, name: str) -> int:
        descriptor = self._writers.get(name)
        if descriptor is None:
            descriptor = self._writers[name] = self._open(name, os.O_WRONLY)
        return descriptor

    def _reader(self, name: str) -> int:
        descriptor = self._readers.get(name)
        if descriptor is not None:
            self._readers.move_to_end(name)
            return descriptor
        descriptor = self._readers[name] = self._open(name, os.O_RDONLY)
        if len(self._readers) > READERS_MAX:
            os.close(self._readers.popitem(last=False)[1])
        return descriptor

    def _forget_reader(self, name: str) -> None:
        """Another file may have this name from now on."""
        if self._loop is not None and threading.get_ident() != self._loop_thread:
            # The loop's thread may be reading, and the number of a descriptor that is closed
            # would be that of another file. Whoever waits for the job comes behind this.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._forget_reader, name)
            return
        descriptor = self._readers.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)


def require_data_folder(device: FileDevice) -> None:
    """For commands that must not make a folder by mistake. Raises ConfigError."""
    try:
        found = device.names()
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(f"{device.folder} is no data folder: there is no such folder") from None
    if not {names.FORMAT, names.NOTE} & set(found) and not names.positions(found, names.SEGMENT):
        raise ConfigError(f"{device.folder} is no data folder: it has neither format nor segments")


class ThreadJob:
    """One background job in its own thread, so that none waits behind a slower one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, job: Job, on_done: Done) -> None:
        self._loop = loop
        self._job = job
        self._on_done: Done | None = on_done
        self._failure: Exception | None = None
        self._runner = threading.Thread(target=self._run, name="semel-job", daemon=True)
        self._runner.start()

    @property
    def is_under_way(self) -> bool:
        return self._runner.is_alive()

    def join(self) -> None:
        self._runner.join()

    def finish(self) -> None:
        self.join()
        self._deliver()

    def _run(self) -> None:
        try:
            for _ in self._job:
                # The loop's thread, if it waits for the interpreter, has it now.
                time.sleep(BREATH_S)
        except Exception as error:  # noqa: BLE001 - whatever it is, the loop's thread must hear of it.
            self._failure = error
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            on_done(self._failure)


def _advise(descriptor: int, *, reads_ahead: bool) -> None:
    if sys.platform == "linux":
        advice = os.POSIX_FADV_NORMAL if reads_ahead else os.POSIX_FADV_RANDOM
        os.posix_fadvise(descriptor, 0, 0, advice)


def _write_all(descriptor: int, offset: int, parts: Sequence[Buffer]) -> None:
    for first in range(0, len(parts), IOV_MAX):
        group = parts[first : first + IOV_MAX] if len(parts) > IOV_MAX else parts
        size = sum(map(len, group))
        count = os.pwritev(descriptor, group, offset)
        if count != size:
            raise OSError(
                errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {count} of {size} bytes were written"
            )
        offset += size


def _allocate(descriptor: int, size: int) -> None:
    if sys.platform == "darwin":
        end = os.fstat(descriptor).st_size
        while end < size:
            end += os.pwrite(descriptor, ZEROS[: size - end], end)
    else:
        os.posix_fallocate(descriptor, 0, size)


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return UNKNOWN


def _mount_id(folder: Path) -> str:
    """Linux alone tells it: by the description of an open file."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        description = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii")
    except OSError:
        return UNKNOWN
    finally:
        os.close(descriptor)
    for line in description.splitlines():
        name, _, value = line.partition(":")
        if name == "mnt_id":
            return value.strip()
    return UNKNOWN
