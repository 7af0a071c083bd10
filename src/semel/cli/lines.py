"""Lines from files and from standard input, as soon as they are there."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import BinaryIO

_CHUNK_SIZE = 1024 * 1024


async def lines_of_files(files: Iterable[Path]) -> AsyncIterator[list[bytes]]:
    for file in files:
        with file.open("rb") as stream:
            async for lines in lines_of(stream):
                yield lines


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
