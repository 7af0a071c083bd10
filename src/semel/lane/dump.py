"""The frames of a folder as values to be shown, read without opening it."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from semel.errors import CorruptJournal, CorruptMessage
from semel.journal import names
from semel.journal.file import checkpoints, formats
from semel.journal.file.device import Device
from semel.journal.file.survey import Gap, survey
from semel.journal.file.walk import StoredFrame
from semel.journal.frames import HEADER_SIZE
from semel.lane.frame import BatchEntry, decode
from semel.lane.partition_names import PartitionNames, restored
from semel.records.batch import BatchHeader
from semel.records.control import Marker
from semel.records.records import Record, decode_batch
from semel.types import Position


class ShownBatch(NamedTuple):
    partition: str
    position: int
    """Of its first byte in the journal."""
    header: BatchHeader
    marker: Marker | None
    body: memoryview

    def records(self) -> list[Record]:
        """Raises CorruptMessage."""
        return decode_batch(self.body)


class ShownFact(NamedTuple):
    kind: str
    fields: dict[str, object]


class ShownFrame(NamedTuple):
    position: int
    size: int
    incarnation: int
    durable: int
    """What was known to be durable when it was made."""
    lane_ms: int
    wall_ms: int
    entries: Sequence[ShownBatch | ShownFact]


Shown = ShownFrame | Gap


def dump(device: Device, from_position: int, partition: str | None) -> Iterator[Shown]:
    """From the frame on that holds this position; with the batches of one partition, if it is
    named. Raises NewerFormat, and CorruptJournal where a whole frame cannot be read."""
    formats.read(device)
    found = device.names()
    known = _names_from(device, names.positions(found, names.CHECKPOINT))
    bases = names.positions(found, names.SEGMENT)
    first = max(bisect_right(bases, from_position) - 1, 0)
    for each in survey(device, bases[first:]):
        if isinstance(each, Gap):
            # Nothing follows what was never written to.
            if each.end > from_position and not (each.is_blank and each.base == bases[-1]):
                yield each
            continue
        shown = _shown(each, known)
        if each.header.end <= from_position:
            continue
        if partition is None:
            yield shown
        elif batches := [entry for entry in shown.entries if _is_of(entry, partition)]:
            yield shown._replace(entries=batches)


def _names_from(device: Device, positions: Sequence[int]) -> PartitionNames:
    """The newest checkpoint that can be read knows topics that were made in older segments."""
    known = PartitionNames()
    for position in reversed(positions):
        try:
            found = checkpoints.read(device, position)
            if found is not None:
                known.learn_from(restored(found.state[0]))
                break
        except (CorruptJournal, FileNotFoundError):
            # A running broker may have removed it meanwhile.
            continue
    return known


def _shown(frame: StoredFrame, known: PartitionNames) -> ShownFrame:
    header = frame.header
    position = Position(header.position + HEADER_SIZE)
    try:
        decoded = decode(frame.payload, position)
    except CorruptMessage as error:
        raise CorruptJournal(f"frame at byte {header.position}: {error}") from error
    entries: list[ShownBatch | ShownFact] = []
    for entry in decoded.entries:
        if isinstance(entry, BatchEntry):
            entries.append(
                ShownBatch(
                    known.of(entry.number),
                    position + entry.at,
                    entry.header,
                    entry.marker,
                    entry.body,
                )
            )
        else:
            known.learn(entry)
            fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
            entries.append(ShownFact(type(entry).__name__, msgspec.to_builtins(fields)))
    return ShownFrame(
        header.position,
        HEADER_SIZE + header.size,
        header.incarnation,
        header.durable,
        decoded.at.now_ms,
        decoded.at.wall_ms,
        entries,
    )


def _is_of(entry: ShownBatch | ShownFact, partition: str) -> bool:
    return isinstance(entry, ShownBatch) and entry.partition == partition
