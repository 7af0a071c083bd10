"""The files of a volume, read without opening a journal: whose batches it has, and what is damaged.

The index alone says whose a batch is, so that no index can be made of the batches.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from semel.errors import CorruptJournal, CorruptMessage
from semel.journal import names
from semel.journal.file.device import Device
from semel.journal.index_files import AnySealedIndex, open_index
from semel.journal.pages import Pages
from semel.journal.sealed import NO_ENTRY, read_header
from semel.journal.stretch import Stretch, copied
from semel.records import batch as record_batch
from semel.records.batch import HEADER_SIZE, BatchHeader

READ_SIZE: Final = 2**20
INDEX_BYTES_HELD: Final = 32 * 2**20
NOT_ITS_INDEX: Final = "this is no index of its volume"


class VolumeBatch(NamedTuple):
    partition: int
    """As the lane counts partitions."""
    byte: int
    """Where it begins in the file."""
    header: BatchHeader
    body: memoryview


class Damage(NamedTuple):
    file: str
    byte: int | None
    what: str
    partition: int | None = None
    """Whose batch it is, if that is known, and the offset where the batch should begin."""
    base_offset: int | None = None


def open_volume(device: Device, number: int) -> AnySealedIndex:
    """Its index. Raises CorruptJournal, NewerFormat, OSError."""
    name = names.volume_index(number)
    index = open_index(Pages(device.read, INDEX_BYTES_HELD), name)
    if index.base != names.volume_base(number):
        raise CorruptJournal(f"{name}: {NOT_ITS_INDEX}")
    return index


def _rows(index: AnySealedIndex, partition: int) -> Stretch | None:
    entry = index.entry(partition)
    return None if entry == NO_ENTRY else index.stretch(entry)


def first_offset(device: Device, number: int, partition: int) -> int | None:
    """Of what a volume has of one partition, if it has anything. Raises as `open_volume`."""
    stretch = _rows(open_volume(device, number), partition)
    return None if stretch is None else stretch.base_offsets[stretch.first]


def batches_of(device: Device, number: int, partition: int) -> Iterator[VolumeBatch]:
    """Those that a volume has of one partition. Raises as `open_volume`."""
    index = open_volume(device, number)
    stretch = _rows(index, partition)
    if stretch is None:
        return
    for found in _stretch(device, number, index.base, partition, stretch):
        if isinstance(found, Damage):
            raise CorruptJournal(f"{found.file}, byte {found.byte}: {found.what}")
        yield found


def examine(device: Device, number: int) -> Iterator[VolumeBatch | Damage]:
    """All batches in their order, every checksum of both files checked. Raises OSError."""
    name, base = names.volume_index(number), names.volume_base(number)
    data_size = device.size(names.volume(number))
    header = read_header(device.read(name, 0, READ_SIZE))
    if header is None or (header.base, header.size) != (base, device.size(name)):
        yield Damage(name, None, NOT_ITS_INDEX)
        yield from _without_index(device, number, data_size)
        return
    end = base
    try:
        index = open_volume(device, number)
        for entry, partition in enumerate(index.directory().partitions):
            stretch = index.stretch(entry)
            if stretch is None:
                continue
            for _ in index.aborted_from(entry, 0):
                pass
            copied(stretch.timestamps, stretch.first, stretch.stop)
            if stretch.positions[stretch.first] != end:
                yield _misplaced(number, end - base, stretch.positions[stretch.first] - base)
            yield from _stretch(device, number, base, partition, stretch)
            end = stretch.positions[stretch.stop - 1] + stretch.sizes[stretch.stop - 1]
    except CorruptJournal:
        yield Damage(name, None, "wrong checksum")
        yield from _without_index(device, number, data_size)
        return
    if header.end != end:
        yield Damage(name, None, NOT_ITS_INDEX)
    elif end < base + data_size:
        yield _misplaced(number, end - base, data_size)


def _without_index(device: Device, number: int, data_size: int) -> Iterator[Damage]:
    """The batches as they follow each other, up to the first that does not tell where it ends."""
    name = names.volume(number)
    byte = 0
    while byte < data_size:
        head = device.read(name, byte, HEADER_SIZE)
        size = record_batch.read_header(head).size if len(head) == HEADER_SIZE else 0
        try:
            body = device.read(name, byte, max(size, len(head)))
            record_batch.verify_checksum(body, record_batch.read(body))
        except CorruptMessage:
            yield Damage(name, byte, "wrong checksum")
            return
        byte += size


def _misplaced(number: int, start: int, stop: int) -> Damage:
    what = f"the {stop - start} bytes from here on are of no batch"
    return Damage(names.volume(number), start, what)


def _stretch(
    device: Device, number: int, base: int, partition: int, stretch: Stretch
) -> Iterator[VolumeBatch | Damage]:
    """The batches that these rows tell of, each compared with its row."""
    first, stop = stretch.first, stretch.stop
    offsets = copied(stretch.base_offsets, first, stop)
    positions = copied(stretch.positions, first, stop)
    sizes = copied(stretch.sizes, first, stop)
    deltas = copied(stretch.last_offset_deltas, first, stop)
    name = names.volume(number)
    block, block_start = memoryview(b""), 0
    last_offset = -1
    for offset, position, size, delta in zip(offsets, positions, sizes, deltas, strict=True):
        byte = position - base
        if not block_start <= byte <= byte + size <= block_start + len(block):
            block = memoryview(device.read(name, byte, max(size, READ_SIZE)))
            block_start = byte
        body = block[byte - block_start : byte - block_start + size]
        what = None
        try:
            header = record_batch.read(body)
            if (header.base_offset, header.size) != (offset, size):
                what = f"its index tells of a batch of {size} bytes at offset {offset}"
            elif header.last_offset_delta != delta:
                what = f"its index tells of another end than offset {header.last_offset}"
            elif offset <= last_offset:
                what = f"the batch at offset {offset} follows one that ends at {last_offset}"
            else:
                record_batch.verify_checksum(body, header)
        except CorruptMessage:
            what = "wrong checksum"
        if what is not None:
            yield Damage(name, byte, what, partition, offset)
            continue
        last_offset = header.last_offset
        yield VolumeBatch(partition, byte, header, body)
