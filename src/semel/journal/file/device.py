"""Where the journal's bytes live: what a device must do, and what proves it is still the same.

Names are plain file names of one flat folder. The blocking half serves recovery and background
jobs; the other half serves the running journal and answers through callbacks on its loop.
"""

import asyncio
import errno
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from semel.types import Buffer

Done = Callable[[Exception | None], None]
"""Called once on the loop's thread, with what went wrong or None."""

DoneReading = Callable[[Buffer | Exception], None]
"""Called once on the loop's thread, with the bytes that are there or what went wrong."""

Job = Iterator[None]
"""Blocking calls of a device with a `yield` between them: where a crash may fall."""

UNKNOWN = ""

LOST: Final = frozenset({errno.EIO, errno.EBADMSG, getattr(errno, "EUCLEAN", errno.EIO)})
"""What a disk or its file system says of bytes that it has lost."""


class DiskIdentity(msgspec.Struct, frozen=True):
    """Names the kernel and the disk that hold the bytes written but not yet synced."""

    boot_id: str
    device: str
    inode: str
    mount: str

    def proves_same(self, noted: "DiskIdentity") -> bool:
        """True if no written byte can be lost since `noted`; what is unknown proves nothing."""
        fields = (self.boot_id, self.device, self.inode, self.mount)
        return self == noted and UNKNOWN not in fields


def closed(name: str) -> OSError:
    """The error for who still reads from a device that is closed."""
    return OSError(f"the journal was closed before {name} was read")


class JobHandle(Protocol):
    def finish(self) -> None:
        """Waits until the job has run and calls its `on_done`, if that has not happened yet."""


class Device(Protocol):
    def acquire(self) -> None:
        """Takes the folder for this process; raises FolderInUse."""

    def identity(self) -> DiskIdentity: ...

    # Blocking; each raises OSError.

    def names(self) -> list[str]: ...

    def size(self, name: str) -> int: ...

    def free_bytes(self) -> int:
        """What can still be allocated, if nobody else takes it."""

    def allocate(self, name: str, size: int) -> None:
        """Gives the file at least `size` bytes, so that no write in them lacks room."""

    def create(self, name: str) -> None:
        """Makes the file, or empties it."""

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes there are, fewer at the end of the file. On the loop's thread only."""

    def read_back(self, name: str, offset: int, size: int) -> bytes:
        """As `read`, for a job: what the disk has of what was synced, and not what was given to
        it."""

    def read_now(self, name: str, offset: int, size: int) -> Buffer | None:
        """As `read`, if that need not wait for a disk; else None. On the loop's thread only."""

    def next_data(self, name: str, offset: int) -> int:
        """Where bytes that may not be zeros begin, at or after the offset; else the file's end."""

    def write(self, name: str, offset: int, parts: Sequence[Buffer]) -> None:
        """All of the parts, or an OSError."""

    def truncate(self, name: str, size: int) -> None: ...

    def sync(self, name: str) -> None: ...

    def rename(self, name: str, successor: str) -> None:
        """Replaces `successor`; lasting only after `sync_folder`."""

    def remove(self, name: str) -> None:
        """Nothing happens if there is no such file."""

    def sync_folder(self) -> None: ...

    # Running.

    def start(self, loop: asyncio.AbstractEventLoop) -> None: ...

    def submit_write(self, name: str, offset: int, parts: list[Buffer], on_done: Done) -> None:
        """May call `on_done` before it returns. One at a time."""

    def submit_read(self, name: str, offset: int, size: int, on_done: DoneReading) -> None:
        """As `read`, beside the loop; those beyond a few wait for each other.

        Whatever `stop` finds unread is answered with an OSError, and so is all that comes later.
        """

    def submit_sync(self, names: Sequence[str], folder: bool, on_done: Done) -> None:
        """Covers all that was written to `names` before the call, in this order. One at a time."""

    def submit(self, job: Job, on_done: Done) -> JobHandle: ...

    def retire(self, name: str) -> None:
        """Nothing will be written to this file any more."""

    def end_threads(self, on_done: Callable[[], None]) -> None:
        """Lets what is under way end beside the loop, so that `stop` has nothing to wait for.

        What was not begun is answered as `stop` answers it.
        """

    def stop(self) -> None:
        """Ends the device's threads, closes its files and gives the folder free."""


async def finish(device: Device, job: Job) -> None:
    """Return when the device has done it. Raises what that raises."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_done(error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    device.submit(job, on_done)
    await done


async def read_beside(device: Device, name: str, offset: int, size: int) -> Buffer:
    """As `read`, beside the loop. Raises OSError."""
    answer: asyncio.Future[Buffer] = asyncio.get_running_loop().create_future()

    def on_done(found: Buffer | Exception) -> None:
        if answer.done():
            return
        if isinstance(found, Exception):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    device.submit_read(name, offset, size, on_done)
    return await answer
