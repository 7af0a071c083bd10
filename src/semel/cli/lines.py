"""Lines from files and from standard input, as soon as they are there."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

_CHUNK_SIZE = 1024 * 1024


class Lines(NamedTuple):
    """Some lines that follow each other."""

    lines: Sequence[bytes]
    file: Path | None
    """None: they came from standard input."""
    number: int
    """Of the first of them, counted from 1."""

    def place_of(self, index: int) -> str:
        """Where a user finds the line at this index."""
        line = f"line {self.number + index}"
        return line if self.file is None else f"{self.file}: {line}"


async def numbered_lines(files: Sequence[Path], stream: BinaryIO) -> AsyncIterator[Lines]:
    """Those of the files, or of the stream if there are none."""
    for file in files:
        with file.open("rb") as opened:
            async for some in _numbered(opened, file):
                yield some
    if not files:
        async for some in _numbered(stream, None):
            yield some


async def _numbered(stream: BinaryIO, file: Path | None) -> AsyncIterator[Lines]:
    number = 1
    async for lines in lines_of(stream):
        yield Lines(lines, file, number)
        number += len(lines)


async def lines_of(stream: BinaryIO) -> AsyncIterator[list[bytes]]:
    """The lines without their ends, as many at a time as can be had without waiting.

    A line that someone types is given at once; of a file come about a megabyte at a time. No
    thread waits for input, since it could not be interrupted.
    """
    rest = b""
    while chunk := await _read(stream.fileno()):
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest]


async def _read(descriptor: int) -> bytes:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(descriptor, readable.set)
    except PermissionError:
        return os.read(descriptor, _CHUNK_SIZE)  # A file on disk is always readable.
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, _CHUNK_SIZE)
