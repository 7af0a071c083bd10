"""How frames and volumes are printed: in lines to read, or as one object of JSON."""

import json
from collections.abc import Iterator, Sequence

from semel.cli.record_format import add_content
from semel.cli.times import moment_in_words
from semel.errors import CorruptMessage, UnsupportedCompressionType
from semel.journal.file.survey import Gap
from semel.lane.dump import Shown, ShownBatch, ShownFact, ShownVolume
from semel.records.compression import Compression
from semel.records.records import Record
from semel.spelling import noun
from semel.types import NO_PRODUCER_ID, NO_SEQUENCE


def frame_in_words(shown: Shown, *, records: bool) -> Iterator[str]:
    if isinstance(shown, Gap):
        yield f"gap {shown.position}: {shown.size} bytes of {shown.file} from byte {shown.offset}"
        yield f"  {shown.reason}"
        return
    if isinstance(shown, ShownVolume):
        yield f"volume {shown.number}"
        yield from _entries_in_words(shown.entries, records=records)
        return
    yield (
        f"frame {shown.position}  {moment_in_words(shown.wall_ms)}  {shown.size} bytes, "
        f"incarnation {shown.incarnation}, durable to {shown.durable}"
    )
    yield from _entries_in_words(shown.entries, records=records)


def _entries_in_words(entries: Sequence[ShownBatch | ShownFact], *, records: bool) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, ShownFact):
            yield from (f"  {line}" for line in _fact_in_words(entry))
            continue
        yield f"  {_batch_in_words(entry)}"
        if records:
            yield from (f"    {line}" for line in _records_in_words(entry))


def _fact_in_words(fact: ShownFact) -> Iterator[str]:
    fields = dict(fact.fields)
    parts = fields.pop("parts", ())
    told = ", ".join(f"{name} {_quoted(value)}" for name, value in fields.items())
    yield f"fact {fact.kind}: {told}" if told else f"fact {fact.kind}"
    assert isinstance(parts, Sequence)
    for part in parts:
        yield (
            f"  {part['partition']} up to offset {part['end_offset']}: "
            f"{part['byte_count']} bytes are left"
        )


def _batch_in_words(batch: ShownBatch) -> str:
    header, marker = batch.header, batch.marker
    producer = f"producer {header.producer_id} epoch {header.producer_epoch}"
    if marker is not None:
        return (
            f"marker {batch.partition} offset {header.base_offset}: "
            f"{marker.type.name.lower()} of {producer}"
        )
    words = [
        f"batch {batch.partition} offsets {header.base_offset} to {header.last_offset}",
        f"{header.record_count} {noun(header.record_count, 'record')}",
        f"{header.size} bytes",
        f"leader epoch {header.leader_epoch}",
    ]
    if header.compression:
        words.append(_compression(header.compression))
    if header.producer_id != NO_PRODUCER_ID:
        words.append(producer)
    if header.base_sequence != NO_SEQUENCE:
        words.append(f"sequence {header.base_sequence}")
    if header.is_transactional:
        words.append("transactional")
    return ", ".join(words)


def _records_in_words(batch: ShownBatch) -> Iterator[str]:
    try:
        for record in batch.records():
            headers = "".join(
                f" {_quoted(name)}={_quoted(value)}" for name, value in record.headers
            )
            moment = moment_in_words(record.timestamp_ms)
            yield (
                f"{record.offset}  {moment}  {_quoted(record.key)}: "
                f"{_quoted(record.value)}{headers}"
            )
    except (CorruptMessage, UnsupportedCompressionType) as error:
        yield str(error)


def _quoted(value: object) -> str:
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    return json.dumps(value, ensure_ascii=False)


def _compression(number: int) -> str:
    try:
        return Compression(number).name.lower()
    except ValueError:
        return f"compression {number}"


def frame_as_json(shown: Shown, *, records: bool) -> dict[str, object]:
    """Of a gap as well, which has a reason and no entries, and of a volume."""
    if isinstance(shown, Gap):
        return {
            "gap": shown.position,
            "size": shown.size,
            "file": shown.file,
            "byte": shown.offset,
            "reason": shown.reason,
        }
    if isinstance(shown, ShownVolume):
        batches = [_batch_as_json(entry, records=records) for entry in shown.entries]
        return {"volume": shown.number, "entries": batches}
    entries = [
        {"fact": entry.kind, **entry.fields}
        if isinstance(entry, ShownFact)
        else _batch_as_json(entry, records=records)
        for entry in shown.entries
    ]
    return {**shown._asdict(), "entries": entries}


def _batch_as_json(batch: ShownBatch, *, records: bool) -> dict[str, object]:
    header, marker = batch.header, batch.marker
    fields: dict[str, object] = {
        "partition": batch.partition,
        "position": batch.position,
        "size": header.size,
        "last_offset": header.last_offset,
        "compression_type": _compression(header.compression),
        "is_transactional": header.is_transactional,
        "marker": None if marker is None else marker.type.name.lower(),
        **header.named_fields(),
    }
    if records:
        try:
            fields["records"] = [_record_as_json(record) for record in batch.records()]
        except (CorruptMessage, UnsupportedCompressionType) as error:
            fields["error"] = str(error)
    return fields


def _record_as_json(record: Record) -> dict[str, object]:
    fields: dict[str, object] = {"offset": record.offset, "timestamp": record.timestamp_ms}
    add_content(fields, record)
    return fields
