"""Reads frames in order from the device and stops at the first bytes that are none."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from semel.journal import names
from semel.journal.device import Device
from semel.journal.frames import HEADER_SIZE, MAGIC, FrameHeader, checksum_of, header_at

BLOCK_SIZE = 1 << 20


class Frame(NamedTuple):
    header: FrameHeader
    payload: memoryview


class SegmentReader:
    """Reads a segment block by block."""

    def __init__(self, device: Device, base: int) -> None:
        self.base = base
        self.name = names.segment(base)
        self.size = device.size(self.name)
        self._device = device
        self._block = b""
        self._block_start = 0

    def view(self, offset: int, size: int) -> memoryview:
        """The bytes there are; fewer at the end of the file."""
        start = offset - self._block_start
        if start < 0 or start + size > len(self._block):
            self._block = self._device.read(self.name, offset, max(size, BLOCK_SIZE))
            self._block_start = offset
            start = 0
        return memoryview(self._block)[start : start + size]


class Walk:
    """Frames from `position` on. When it stops, `end` is where and `reason` why."""

    def __init__(self, device: Device, bases: Sequence[int], position: int, previous: int) -> None:
        self.end = position
        self.previous = previous
        self.incarnation = 0
        self.durable = 0
        """The highest durable position that a frame has recorded."""
        self.segment = 0
        """The place in `bases` of the segment where the walk stands."""
        self.reason = ""
        self._device = device
        self._bases = bases

    def __iter__(self) -> Iterator[Frame]:
        bases = self._bases
        self.segment = max(place for place, base in enumerate(bases) if base <= self.end)
        while True:
            reader = SegmentReader(self._device, bases[self.segment])
            is_last = self.segment + 1 == len(bases)
            limit = reader.base + reader.size if is_last else bases[self.segment + 1]
            while self.end != limit or is_last:
                frame = self._next(reader, limit)
                if frame is None:
                    return
                self.end = frame.header.end
                self.previous = frame.header.checksum
                self.incarnation = frame.header.incarnation
                self.durable = max(self.durable, frame.header.durable)
                yield frame
            self.segment += 1

    def _next(self, reader: SegmentReader, limit: int) -> Frame | None:
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


def frame_at(reader: SegmentReader, offset: int, limit: int) -> tuple[Frame | None, str]:
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
    return Frame(header, stored[HEADER_SIZE:]), ""


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
    for place, base in enumerate(bases):
        reader = SegmentReader(device, base)
        offset = position - base if place == 0 else 0
        zeros = bytes(BLOCK_SIZE)
        while offset < reader.size:
            block = device.read(reader.name, offset, BLOCK_SIZE)
            if block == zeros[: len(block)]:
                offset += len(block)
                continue
            is_blank = False
            found = block.find(MAGIC)
            if found < 0:
                # The mark may be cut by the end of the block.
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
