"""All frames of a folder that nobody opens: those behind a damaged place are found again."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from semel.journal import names
from semel.journal.file.device import Device
from semel.journal.file.walk import BLOCK_SIZE, SegmentReader, StoredFrame, frame_at
from semel.journal.frames import MAGIC


class Gap(NamedTuple):
    """Bytes of a segment that are no frame."""

    base: int
    """Of the segment."""
    position: int
    end: int
    """Where the next whole frame begins, or the segment ends."""
    reason: str
    is_blank: bool
    """Nothing was ever written there, or all of it was wiped."""

    @property
    def file(self) -> str:
        return names.segment(self.base)

    @property
    def offset(self) -> int:
        """In the file."""
        return self.position - self.base

    @property
    def size(self) -> int:
        return self.end - self.position


def survey(device: Device, bases: Sequence[int]) -> Iterator[StoredFrame | Gap]:
    """In order, from the first segment on; what stands before it need not be known."""
    previous = 0 if bases and bases[0] == 0 else None
    incarnation = 0
    for number, base in enumerate(bases):
        reader = SegmentReader(device, base)
        is_last = number + 1 == len(bases)
        position, limit = base, base + reader.size if is_last else bases[number + 1]
        while position < limit:
            frame, reason = frame_at(reader, position - base, limit)
            if frame is not None:
                header = frame.header
                if previous is not None and header.previous != previous:
                    reason = "it does not follow the frame before it"
                elif header.incarnation < incarnation:
                    reason = "it is older than the frame before it"
                else:
                    previous, incarnation = header.checksum, header.incarnation
                    position = header.end
                    yield frame
                    continue
            elif position - base == reader.size:
                reason = f"{names.segment(position)} is missing"
            gap = _gap(device, reader, position, limit, reason)
            yield gap
            position, previous = gap.end, None


def _gap(device: Device, reader: SegmentReader, position: int, limit: int, reason: str) -> Gap:
    base = reader.base
    offset, stop = position - base, limit - base
    is_blank = True
    zeros = bytes(BLOCK_SIZE)
    while offset < stop:
        block = device.read(reader.name, offset, min(BLOCK_SIZE, stop - offset))
        if not block:
            return Gap(base, position, limit, reason, False)
        if block == zeros[: len(block)]:
            offset += len(block)
            continue
        is_blank = False
        found = block.find(MAGIC)
        if found < 0:
            # The mark may be cut by the end of the block.
            offset += max(len(block) - len(MAGIC) + 1, 1)
            continue
        offset += found
        # Not where the gap begins: that one was refused.
        if offset > position - base and frame_at(reader, offset, limit)[0] is not None:
            return Gap(base, position, base + offset, reason, False)
        offset += 1
    return Gap(base, position, limit, reason, is_blank)
