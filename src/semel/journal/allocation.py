"""Allocating a segment on a disk that may have less room than a whole one takes."""

import errno
from collections.abc import Iterable, Iterator
from typing import Final

from semel.journal.device import Device
from semel.journal.settings import JournalSettings

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def sizes_of(settings: JournalSettings, needed: int = 0) -> Iterator[int]:
    """How long a segment may be, the best first, if there is to be room for `needed` bytes.

    Whole segments, so that a need which grows is not met byte by byte; what is needed; and on a
    full disk a half, a quarter, and so on.
    """
    size = settings.segment_bytes
    if needed > size:
        yield -(-needed // size) * size
        yield needed
    while size >= settings.smallest_segment_bytes:
        yield size
        size //= 2


def allocate_first(device: Device, name: str, sizes: Iterable[int]) -> OSError | None:
    """Gives the file the first of these falling sizes that the disk has room for.

    None if that is the very first, else what the disk said to it. The file is never made shorter,
    and is as it was if there is no room for any.
    """
    present = device.size(name)
    refusal: OSError | None = None
    for size in sizes:
        if size <= present:
            break
        try:
            device.allocate(name, size)
        except OSError as error:
            # A part of it may be allocated, which others need more.
            device.truncate(name, present)
            refusal = refusal or error
            if error.errno not in FULL:
                break
        else:
            break
    return refusal
