"""The format of a folder as a whole, and the refusal of one that a newer version has written.

The file `format` is the first that a folder gets. Its first line is `format N`: who does not know
format N must change nothing in the folder. More may follow for who reads it, and is shown with the
refusal. Folders that versions up to 0.2.0 have left lack the file.

Law: the number is raised with every change that older versions would read wrongly, of whatever
file, and the file is lasting before the first byte of the new kind is written.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from semel.errors import CorruptJournal, NewerFormat
from semel.journal import names
from semel.journal.file.checkpoints import write_whole
from semel.journal.file.device import Device
from semel.journal.file.mending import BatchesOf
from semel.journal.file.segments import FULL
from semel.types import Buffer

FORMAT: Final = 1
SEVERAL_LANES: Final = 2
"""Of a folder with more lanes than one, which says how many in its next line."""
_NO_FORMAT: Final = 0
"""Of a folder that lacks the file."""
_SIZE_MAX: Final = 1_000
_FIRST_LINE: Final = re.compile(rb"format ([0-9]{1,9})\n")
_LANES: Final = re.compile(rb"format [0-9]{1,9}\nlanes ([0-9]{1,9})\n")


class Contents(NamedTuple):
    """What the journal keeps for others, as far as opening it must know: each raises NewerFormat
    if it was written by a newer version."""

    check_snapshot: Callable[[bytes], None]
    """Of a checkpoint."""
    check_payload: Callable[[memoryview, int], None]
    """Of the frame at that position."""
    batches_of: BatchesOf | None = None
    """None: an index that is lost is not built again of a segment alone."""


def _is_known(*_: object) -> None:
    pass


ANY_CONTENTS: Final = Contents(_is_known, _is_known)


def read_first(device: Device) -> None:
    """For who does not have the folder yet. Raises as `read`."""
    try:
        read(device)
    except BaseException:
        device.stop()
        raise


def read(device: Device) -> int:
    """Raises NewerFormat, and CorruptJournal if the file does not say what it should."""
    stored = _stored(device)
    if stored is None:
        return _NO_FORMAT
    number = parse(stored)
    if number > SEVERAL_LANES:
        more = stored[stored.index(b"\n") :].decode(errors="replace").split()
        explained = f" ({' '.join(more)})" if more else ""
        raise NewerFormat(
            f"the data folder has format {number}{explained}, this Semel reads up to "
            f"{SEVERAL_LANES}: it was left as it is"
        )
    return number


def _stored(device: Device) -> bytes | None:
    """None if there is no such file."""
    try:
        return device.read(names.FORMAT, 0, _SIZE_MAX)
    except FileNotFoundError:
        return None


def lane_count(device: Device) -> int:
    """How many lanes the folder has, itself among them. Raises as `read`."""
    if read(device) < SEVERAL_LANES:
        return 1
    found = _LANES.match(_stored(device) or b"")
    if found is None:
        raise CorruptJournal(f"{names.FORMAT}: it should say in its second line 'lanes N'")
    return int(found[1])


def write_lanes(device: Device, count: int) -> None:
    """Note how many lanes the folder has; durable when this returns."""
    content = b"format %d\nlanes %d\n" % (SEVERAL_LANES, count)
    for _ in write_whole(device, names.FORMAT, [content]):
        pass
    device.sync_folder()


def parse(stored: Buffer) -> int:
    """Raises CorruptJournal."""
    found = _FIRST_LINE.match(stored)
    if found is None:
        raise CorruptJournal(
            f"{names.FORMAT}: it should begin with a line as 'format {FORMAT}', which says who may "
            "open this folder"
        )
    return int(found[1])


def carry_over(device: Device, found: int) -> None:
    """From the format that was found to that of today. Lasting when it returns."""
    if found >= FORMAT:
        return
    try:
        for _ in write_whole(device, names.FORMAT, [b"format %d\n" % FORMAT]):
            pass
    except OSError as error:
        # A full disk can still be opened. Older versions left nothing that would be read wrongly
        # under this number, nor the other way round, so that the next start may write it.
        if error.errno not in FULL:
            raise
    device.sync_folder()
