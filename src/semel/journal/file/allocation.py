"""Allocating a segment on a disk that may have less room than a whole one takes."""

import errno
import os
from collections.abc import Iterator
from typing import Final

from semel.journal.file.device import Device
from semel.journal.file.settings import JournalSettings

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def allocate(
    device: Device, name: str, settings: JournalSettings, needed: int = 0
) -> OSError | None:
    """Gives the file the room of a segment, of `needed` bytes at least, or what the disk has.

    None if all is well, else what the disk said when it was asked for more than it had. The file
    is never made shorter, and is as it was if there is no room.
    """
    present = device.size(name)
    refusal: OSError | None = None
    for size in _sizes(settings, needed):
        if size <= present:
            break
        # The last bytes are left to checkpoints, and to what else is on the disk.
        spare = settings.smallest_segment_bytes if size < settings.segment_bytes else 0
        try:
            _grow(device, name, present, size, spare)
        except OSError as error:
            refusal = refusal or error
            if error.errno not in FULL:
                break
        else:
            break
    return refusal


def _grow(device: Device, name: str, present: int, size: int, spare: int) -> None:
    # Asked for before it is taken: what is found too small is meanwhile missing elsewhere.
    if device.free_bytes() < size - present + spare:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
    try:
        device.allocate(name, size)
    except OSError:
        device.truncate(name, present)
        raise


def _sizes(settings: JournalSettings, needed: int) -> Iterator[int]:
    """How long a segment may be, the best first.

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
