"""The frames and volumes of a folder as values to be shown, read without opening it."""

import contextlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from semel.errors import CorruptJournal, CorruptMessage, UnknownTopicOrPartition
from semel.journal import names
from semel.journal.file import checkpoints, formats
from semel.journal.file.device import Device
from semel.journal.file.survey import Gap, survey
from semel.journal.file.volume_files import VolumeBatch, batches_of, first_offset
from semel.journal.file.walk import StoredFrame
from semel.journal.frames import HEADER_SIZE
from semel.lane import facts
from semel.lane.facts import AnyFact
from semel.lane.frame import BatchEntry, decode
from semel.lane.partition_names import PartitionNames, restored
from semel.records.batch import BatchHeader
from semel.records.control import Marker, decode_marker
from semel.records.records import Record, decode_batch
from semel.spelling import unknown_name
from semel.types import Position

BATCHES_AT_ONCE: Final = 256
"""Shown of a volume together."""


class ShownBatch(NamedTuple):
    partition: str
    position: int
    """Of its first byte in the journal, or in its volume."""
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


class ShownVolume(NamedTuple):
    number: int
    entries: Sequence[ShownBatch]


Shown = ShownFrame | ShownVolume | Gap


def dump(device: Device, from_position: int, partition: str | None) -> Iterator[Shown]:
    """From the frame on that holds this position; with the batches of one partition, if it is
    named: then from its first on also those in volumes.

    Raises NewerFormat, and CorruptJournal where a whole frame or batch cannot be read; at the end
    UnknownTopicOrPartition if no frame or checkpoint tells of that partition.
    """
    formats.read(device)
    found = device.names()
    known = _names_from(device, names.positions(found, names.CHECKPOINT))
    if partition is not None and not from_position:
        yield from _in_volumes(device, names.positions(found, names.VOLUME_INDEX), partition, known)
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
    if partition is not None and partition not in (there := known.all()):
        raise UnknownTopicOrPartition(unknown_name("partition", partition, there))


def _in_volumes(
    device: Device, volumes: Sequence[int], partition: str, known: PartitionNames
) -> Iterator[ShownVolume]:
    """By their first offsets: newer volumes may hold what is older."""
    found: list[tuple[int, int, int]] = []
    for volume in volumes:
        for number in known.numbered(partition):
            # A running broker may have replaced it meanwhile.
            with contextlib.suppress(FileNotFoundError):
                first = first_offset(device, volume, number)
                if first is not None:
                    found.append((number, first, volume))
    for number, _, volume in sorted(found):
        with contextlib.suppress(FileNotFoundError):
            batches = batches_of(device, volume, number)
            while some := [*islice(batches, BATCHES_AT_ONCE)]:
                yield ShownVolume(volume, [_in_volume(batch, partition) for batch in some])


def _in_volume(batch: VolumeBatch, partition: str) -> ShownBatch:
    header, body = batch.header, batch.body
    marker = decode_marker(body) if header.is_control else None
    return ShownBatch(partition, batch.byte, header, marker, body)


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
            entries.append(_fact(entry, known))
    return ShownFrame(
        header.position,
        HEADER_SIZE + header.size,
        header.incarnation,
        header.durable,
        decoded.at.now_ms,
        decoded.at.wall_ms,
        entries,
    )


def _fact(fact: AnyFact, known: PartitionNames) -> ShownFact:
    secrets = facts.SECRETS.get(type(fact), frozenset())
    fields = {name: getattr(fact, name) for name in fact.__struct_fields__ if name not in secrets}
    if isinstance(fact, facts.Compacted):
        fields["parts"] = [
            {"partition": known.of(number), "end_offset": end, "byte_count": byte_count}
            for number, end, byte_count in fact.parts
        ]
    if isinstance(fact, facts.Settled | facts.Compacted):
        # Where numbers are names enough there are no others.
        fields = {name: value for name, value in fields.items() if value or "name" not in name}
    return ShownFact(type(fact).__name__, msgspec.to_builtins(fields))


def _is_of(entry: ShownBatch | ShownFact, partition: str) -> bool:
    return isinstance(entry, ShownBatch) and entry.partition == partition
