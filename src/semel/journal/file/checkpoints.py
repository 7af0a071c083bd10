"""Checkpoints: the lane's state at a position, so that a start replays only what follows.

A checkpoint is published after everything before its position is durable, and after the index
files of the sealed segments before it: temporary file, sync, rename, sync of the folder.

The last byte of its magic is the number of the format, and the last four of the file are the
checksum of all others in every format, so that a newer one is told from a damaged one.
"""

import contextlib
import errno
import struct
from array import array
from collections.abc import Callable, Collection, Generator, Sequence
from typing import NamedTuple

from semel.errors import NewerFormat
from semel.journal import names
from semel.journal.file.device import Device, Job
from semel.journal.index_in_memory import IndexInMemory
from semel.records.checksum import crc32c
from semel.types import Buffer

KEPT_COUNT = 2
_HEADER = struct.Struct("<8sIIQQQQ")
_CHECKSUM = struct.Struct("<I")
_READ_AT_ONCE = 2**20
_FAMILY = b"SEMELCP"
_FORMAT = 1
_MAGIC = b"%s%d" % (_FAMILY, _FORMAT)


class Checkpoint(NamedTuple):
    position: int
    checksum: int
    """That of the frame which ends at the position: the next one names it as its previous."""
    incarnation: int
    sealed_bases: Sequence[int]
    """The sealed segments before the position; each has an index file."""
    opened: Buffer
    """The batch index of the segment that holds the position, up to there."""
    state: list[bytes]
    """The lane's, in pieces."""


def encode(checkpoint: Checkpoint) -> list[Buffer]:
    header = _HEADER.pack(
        _MAGIC,
        checkpoint.checksum,
        checkpoint.incarnation,
        checkpoint.position,
        len(checkpoint.sealed_bases),
        len(checkpoint.opened),
        sum(map(len, checkpoint.state)),
    )
    bases = struct.pack(f"<{len(checkpoint.sealed_bases)}Q", *checkpoint.sealed_bases)
    parts: list[Buffer] = [header, bases, checkpoint.opened, *checkpoint.state]
    checksum = 0
    for part in parts:
        checksum = crc32c(part, checksum)
    return [*parts, _CHECKSUM.pack(checksum)]


def decode(stored: bytes) -> Checkpoint | None:
    """None if the bytes are no whole checkpoint. Raises NewerFormat."""
    if len(stored) < _HEADER.size + _CHECKSUM.size or not stored.startswith(_FAMILY):
        return None
    body = memoryview(stored)[: -_CHECKSUM.size]
    (content_checksum,) = _CHECKSUM.unpack_from(stored, len(body))
    if content_checksum != crc32c(body):
        return None
    if not stored.startswith(_MAGIC):
        shown = stored[len(_FAMILY) : len(_MAGIC)].decode("latin-1")
        raise NewerFormat(f"a checkpoint has format {shown}, this Semel reads up to {_FORMAT}")
    _, checksum, incarnation, position, base_count, opened_size, state_size = _HEADER.unpack_from(
        body
    )
    opened_start = _HEADER.size + 8 * base_count
    state_start = opened_start + opened_size
    if state_start + state_size != len(body):
        return None
    return Checkpoint(
        position=position,
        checksum=checksum,
        incarnation=incarnation,
        sealed_bases=array("q", struct.unpack_from(f"<{base_count}Q", body, _HEADER.size)),
        opened=bytes(body[opened_start:state_start]),
        state=[bytes(body[state_start:])],
    )


def read(device: Device, position: int) -> Checkpoint | None:
    name = names.checkpoint(position)
    checkpoint = decode(device.read(name, 0, device.size(name)))
    return checkpoint if checkpoint is not None and checkpoint.position == position else None


def without_index(checkpoint: Checkpoint, index_bases: Collection[int]) -> list[int]:
    """The sealed segments before the checkpoint that have no index file.

    None is opened, as there may be very many. Each is whole since before the checkpoint; one that
    was damaged later is found out when it is used.
    """
    return [base for base in checkpoint.sealed_bases if base not in index_bases]


def write_indexes(device: Device, indexes: Sequence[IndexInMemory]) -> Job:
    for index in indexes:
        content = yield from index.encode()
        yield from write_whole(device, names.index(index.base), [content])
    device.sync_folder()


def publish(
    device: Device,
    indexes: Sequence[IndexInMemory],
    checkpoint: Checkpoint,
    opened: Generator[None, None, Buffer],
    older: Sequence[int],
) -> Job:
    """The job that makes a checkpoint lasting, and then removes the older ones."""
    yield from write_indexes(device, indexes)
    yield
    whole = checkpoint._replace(opened=(yield from opened))
    name = names.checkpoint(checkpoint.position)
    yield from write_whole(device, name, encode(whole), check=_read_back)
    device.sync_folder()
    for old in older:
        yield
        device.remove(names.checkpoint(old))


def _read_back(device: Device, name: str, parts: Sequence[Buffer]) -> Job:
    """Raises OSError if the disk gives something else than was written: what is before the older
    checkpoint goes, and without a whole one nothing could be opened."""
    (expected,) = _CHECKSUM.unpack(parts[-1])
    size = sum(map(len, parts)) - _CHECKSUM.size
    checksum = 0
    for offset in range(0, size, _READ_AT_ONCE):
        yield
        stored = device.read_back(name, offset, min(_READ_AT_ONCE, size - offset))
        checksum = crc32c(stored, checksum)
    if checksum != expected or device.read_back(name, size, _CHECKSUM.size) != parts[-1]:
        raise OSError(errno.EIO, "the disk does not give back what was written to it", name)
    yield


def write_whole(
    device: Device,
    name: str,
    parts: Sequence[Buffer],
    check: Callable[[Device, str, Sequence[Buffer]], Job] | None = None,
) -> Job:
    """All of it or nothing has this name, which lasts once the folder is synced. Nothing also if
    `check` raises an OSError."""
    temporary = name + names.TEMPORARY
    try:
        device.create(temporary)
        yield
        device.write(temporary, 0, parts)
        yield
        device.sync(temporary)
        yield
        if check is not None:
            yield from check(device, temporary, parts)
        device.rename(temporary, name)
    except OSError:
        # Half of it is of no use, and on a full disk the next segment needs the room.
        with contextlib.suppress(OSError):
            device.remove(temporary)
        raise
    yield
