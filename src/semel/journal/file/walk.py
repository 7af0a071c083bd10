"""Reads frames in order from the device and stops at the first bytes that are none."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from semel.journal import names
from semel.journal.file.device import Device
from semel.journal.frames import (
    HEADER_SIZE,
    MAGIC,
    FrameHeader,
    checksum_of,
    header_at,
    unpack_header,
)

BLOCK_SIZE = 1 << 20


class SegmentReader:
    """Reads a segment block by block."""

    def __init__(self, device: Device, base: int) -> None:
        self.base = base
        self.name = names.segment(base)
        self.size = device.size(self.name)
        self.block = memoryview(b"")
        self.block_start = 0
        self._device = device

    def view(self, offset: int, size: int) -> memoryview:
        """The bytes there are; fewer at the end of the file."""
        start = offset - self.block_start
        if start < 0 or start + size > len(self.block):
            stored = self._device.read(self.name, offset, max(size, BLOCK_SIZE))
            self.block = memoryview(stored)
            self.block_start = offset
            start = 0
        return self.block[start : start + size]


class StoredFrame(NamedTuple):
    header: FrameHeader
    payload: memoryview


class Walk:
    """Frames from `end` on, each by its position and payload. `reason` says why it stops."""

    def __init__(self, device: Device, bases: Sequence[int], position: int, previous: int) -> None:
        self.end = position
        """Where the next frame should begin."""
        self.previous = previous
        """The checksum of the frame before it."""
        self.incarnation = 0
        self.durable = 0
        """The highest durable position that a frame has recorded."""
        self.segment = 0
        """Which of `bases` the walk stands in, counted from 0."""
        self.reason = ""
        self._device = device
        self._bases = bases

    def __iter__(self) -> Iterator[tuple[int, memoryview]]:
        bases = self._bases
        self.segment = bisect_right(bases, self.end) - 1
        while True:
            reader = SegmentReader(self._device, bases[self.segment])
            is_last = self.segment + 1 == len(bases)
            limit = reader.base + reader.size if is_last else bases[self.segment + 1]
            while True:
                yield from self._quickly(reader, limit)
                if self.end == limit and not is_last:
                    break
                frame = self._next(reader, limit)
                if frame is None:
                    return
                header = frame.header
                self.end = header.end
                self.previous = header.checksum
                self.incarnation = header.incarnation
                self.durable = max(self.durable, header.durable)
                yield header.position, frame.payload
            self.segment += 1

    def _quickly(self, reader: SegmentReader, limit: int) -> Iterator[tuple[int, memoryview]]:
        """The frames that lie whole in the block at hand, checked as `_next` does, but wordless."""
        block, base = reader.block, reader.base + reader.block_start
        size = len(block)
        while True:
            position = self.end
            start = position - base
            if start < 0 or start + HEADER_SIZE > size:
                return
            magic, checksum, payload_size, previous, its_position, incarnation, lag = unpack_header(
                block, start
            )
            stop = start + HEADER_SIZE + payload_size
            if (
                magic != MAGIC
                or its_position != position
                or previous != self.previous
                or incarnation < self.incarnation
                or stop > size
                or base + stop > limit
                or checksum != checksum_of(block[start:stop])
            ):
                return
            self.end = base + stop
            self.previous = checksum
            self.incarnation = incarnation
            self.durable = max(self.durable, position - lag)
            yield position, block[start + HEADER_SIZE : stop]

    def _next(self, reader: SegmentReader, limit: int) -> StoredFrame | None:
        frame, self.reason = frame_at(reader, self.end - reader.base, limit)
        if frame is None:
            return None
        if frame.header.previous != self.previous:
            self.reason = "it does not follow the frame before it"
        elif frame.header.incarnation < self.incarnation:
            self.reason = "it is older than the frame before it"
        else:
            return frame
        return None


def frame_at(reader: SegmentReader, offset: int, limit: int) -> tuple[StoredFrame | None, str]:
    """The whole frame there, or why there is none."""
    head = reader.view(offset, HEADER_SIZE)
    if len(head) < HEADER_SIZE or head[: len(MAGIC)] != MAGIC:
        return None, "no frame begins here"
    header = header_at(head, 0)
    if header.position != reader.base + offset:
        return None, f"the frame says that it stands at {header.position}"
    if header.end > limit:
        return None, f"a frame of {header.size} bytes does not fit into its segment"
    stored = reader.view(offset, HEADER_SIZE + header.size)
    if len(stored) < HEADER_SIZE + header.size:
        return None, f"the frame is cut at {len(stored)} bytes"
    if checksum_of(stored) != header.checksum:
        return None, "wrong checksum"
    return StoredFrame(header, stored[HEADER_SIZE:]), ""


class Remainder(NamedTuple):
    is_blank: bool
    durable: int
    """The highest durable position recorded by any whole frame in it."""
    incarnation: int


def search_behind(device: Device, bases: Sequence[int], position: int) -> Remainder:
    """What lies from `position`, where no frame follows, to the end of the last segment.

    A frame found there is a fact about the past even if it belongs to no history any more.
    """
    is_blank = len(bases) == 1
    durable = incarnation = 0
    for number, base in enumerate(bases):
        reader = SegmentReader(device, base)
        offset = position - base if number == 0 else 0
        zeros = bytes(BLOCK_SIZE)
        while (offset := device.next_data(reader.name, offset)) < reader.size:
            block = device.read(reader.name, offset, BLOCK_SIZE)
            if not block:
                # What nothing was written to has just been cut off: the segment is full.
                break
            if block == zeros[: len(block)]:
                offset += len(block)
                continue
            is_blank = False
            found = block.find(MAGIC)
            if found < 0:
                # The magic may be cut by the end of the block.
                offset += max(len(block) - len(MAGIC) + 1, 1)
                continue
            frame, _ = frame_at(reader, offset + found, base + reader.size)
            if frame is None:
                offset += found + 1
                continue
            durable = max(durable, frame.header.durable)
            incarnation = max(incarnation, frame.header.incarnation)
            offset = frame.header.end - base
    return Remainder(is_blank, durable, incarnation)
