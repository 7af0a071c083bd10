"""What a single broker and the parent of several workers do alike: open their folder and sockets,
print what is for the terminal, and end when their standard input does."""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from semel.broker.options import ServeOptions
from semel.errors import CannotListen, FolderInUse
from semel.journal.file.segments import FULL

BACKLOG: Final = 1024
LOOKS_MAX: Final = 100
LOOK_S: Final = 0.05
"""So long, together, workers may take to end whose parent was killed."""

R = TypeVar("R")


def once_free(taking: Callable[[], R]) -> R:
    """Try for a while to take a folder or a port: workers whose parent was killed may still hold it
    for a moment."""
    for _ in range(LOOKS_MAX):
        with contextlib.suppress(FolderInUse, CannotListen):
            return taking()
        time.sleep(LOOK_S)
    return taking()


@contextlib.contextmanager
def naming(address: str) -> Iterator[None]:
    """Say which address it is that cannot be listened on."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise CannotListen(f"cannot listen on {address}: {reason.lower()}") from error


def say(text: str) -> None:
    """On standard output, unless that is a file on a full disk."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in FULL:
            raise
        # What is left in the buffer would be tried again, in vain, when the process ends.
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a descriptor is needed.
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


def read_until_end(loop: asyncio.AbstractEventLoop, stopped: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stopped.set()


@contextlib.contextmanager
def data_folder(options: ServeOptions) -> Iterator[Path]:
    if not options.ephemeral:
        yield options.data
        return
    folder = Path(tempfile.mkdtemp(prefix="semel-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
