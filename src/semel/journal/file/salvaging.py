"""Reads the files of a folder also where the disk does not give all of their bytes."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from semel.errors import FolderInUse
from semel.journal import names
from semel.journal.file.device import LOST
from semel.journal.file.disk import FileDevice, require_data_folder

BLOCK_SIZE: Final = 4096
FILLER: Final = b"\xff"
"""In the place of lost bytes. Not zero: that is what was never written."""


class LostBytes(NamedTuple):
    name: str
    offset: int
    size: int


class SalvagingDevice(FileDevice):
    """For who only reads: every checksum over the bytes that are lost is wrong."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._lost: dict[str, set[int]] = {}
        """Of each file, the blocks."""

    def read(self, name: str, offset: int, size: int) -> bytes:
        try:
            return super().read(name, offset, size)
        except OSError as error:
            if error.errno not in LOST:
                raise
        end = min(offset + size, self.size(name))
        found = bytearray()
        while (start := offset + len(found)) < end:
            stop = min(start - start % BLOCK_SIZE + BLOCK_SIZE, end)
            found += self._block(name, start, stop - start)
        return bytes(found)

    def _block(self, name: str, offset: int, size: int) -> bytes:
        try:
            # The file may have been cut since.
            return super().read(name, offset, size).ljust(size, FILLER)
        except OSError as error:
            if error.errno not in LOST:
                raise
            self._lost.setdefault(name, set()).add(offset // BLOCK_SIZE)
            return FILLER * size

    def lost(self) -> list[LostBytes]:
        """What could not be read so far; blocks side by side as one."""
        found: list[LostBytes] = []
        for name, blocks in sorted(self._lost.items()):
            for block in sorted(blocks):
                offset, size = block * BLOCK_SIZE, BLOCK_SIZE
                if found and found[-1][0] == name and found[-1].offset + found[-1].size == offset:
                    size += found[-1].size
                    offset = found.pop().offset
                found.append(LostBytes(name, offset, size))
        return found


@contextlib.contextmanager
def unused(folder: Path) -> Iterator[SalvagingDevice]:
    """A folder for who only reads it: no broker has it, or takes it meanwhile. Raises FolderInUse,
    and ConfigError if there is no data folder."""
    device = SalvagingDevice(folder)
    lock = None
    try:
        require_data_folder(device)
        if names.LOCK in device.names():
            lock = os.open(folder / names.LOCK, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FolderInUse(f"a broker is using {folder}: stop it first") from None
        yield device
    finally:
        if lock is not None:
            os.close(lock)
        device.stop()
