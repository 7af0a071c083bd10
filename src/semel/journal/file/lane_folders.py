"""The folders of several lanes: lane 0 is the data folder itself, the others lie within.

    DIR              lane 0, with the file `format`, which says how many lanes there are
    DIR/lanes/lock   held by whoever has all of them
    DIR/lanes/0001   lane 1, and so on: its number in four hexadecimal digits

There are never fewer of them: a topic remembers over how many lanes it was spread. Law: a lane's
folder is there before its number counts, so that one which is missing is never taken for a new one.
"""

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from semel.errors import ConfigError, FolderInUse
from semel.journal import names
from semel.journal.file import formats
from semel.journal.file.disk import FileDevice

LANES: Final = names.LANES
LANES_MAX: Final = 256
_LANE: Final = re.compile("[0-9a-f]{4}")


def lane_folder(folder: Path, number: int) -> Path:
    return folder / LANES / f"{number:04x}" if number else folder


def lane_count(folder: Path) -> int:
    """One also if there is no such folder yet. Raises NewerFormat, CorruptJournal, and ConfigError
    if a lane is missing, or if this is one."""
    whole = _whole(folder)
    if whole is not None:
        # Led by itself it would be a catalogue of its own, which the others know nothing of.
        raise ConfigError(f"{folder} is one of the lanes of {whole}: name that")
    device = FileDevice(folder)
    try:
        count = formats.lane_count(device)
    finally:
        device.stop()
    for number in range(1, count):
        if not lane_folder(folder, number).is_dir():
            raise ConfigError(
                f"{folder} has {count} lanes, and {lane_folder(folder, number)} is missing"
            )
    return count


def _whole(folder: Path) -> Path | None:
    """The folder of which this is a lane; None if it is none."""
    resolved = folder.resolve()
    whole = resolved.parent.parent
    is_lane = _LANE.fullmatch(resolved.name) and resolved.parent.name == LANES
    return whole if is_lane and (whole / names.FORMAT).exists() else None


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """All lanes of a folder are for who holds it. Raises FolderInUse."""
    (folder / LANES).mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / LANES / names.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUse(f"another broker is using {folder}") from None
        yield
    finally:
        os.close(lock)


def add_lanes(folder: Path, count: int) -> None:
    """Let there be so many; who adds some holds the folder. Raises as `lane_count`, and
    FolderInUse if a broker has its lane 0."""
    if lane_count(folder) >= count:
        return
    if count > LANES_MAX:
        raise ConfigError(f"{count} lanes: more than {LANES_MAX}")
    device = FileDevice(folder)
    try:
        device.acquire()
        for number in range(1, count):
            lane_folder(folder, number).mkdir(parents=True, exist_ok=True)
        lanes = FileDevice(folder / LANES)
        lanes.sync_folder()
        lanes.stop()
        formats.write_lanes(device, count)
    finally:
        device.stop()
