"""Records and columns as the application asked for them: deserialized, and columns as one batch."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from semel.client.consuming.positions import Positions
from semel.client.consuming.record import Record
from semel.client.consuming.refusals import UndeliverableRecord
from semel.client.consuming.settings import ConsumerOptions
from semel.client.payloads import Decoder, PayloadRefused, decoder_of
from semel.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa


class Deserializers(NamedTuple):
    """What makes of a key or a value what the application asked for."""

    key: Decoder | None
    value: Decoder | None

    @property
    def are_none(self) -> bool:
        return self.key is None and self.value is None

    def opened(self, record: Record) -> Record:
        key, value = record.key, record.value
        if self.key is not None:
            key = _opened("key", self.key, key)
        if self.value is not None:
            value = _opened("value", self.value, value)
        return record._replace(key=key, value=value)

    def all_opened(self, records: list[Record], positions: Positions) -> list[Record]:
        """What can be opened; the first that cannot is raised once it is the first of all."""
        if self.are_none:
            return records
        opened: list[Record] = []
        for record in records:
            try:
                opened.append(self.opened(record))
            except Exception as error:
                positions.hand_back(records[len(opened) :])
                if opened:
                    break
                raise UndeliverableRecord(
                    record.topic, record.partition, record.offset, error
                ) from error
            except BaseException:
                # Whoever is interrupted has got none of them.
                positions.hand_back(records)
                raise
        return opened


def _opened(part: str, decode: Decoder, content: bytes | None) -> Any:
    try:
        return decode(content)
    except PayloadRefused as refused:
        raise PayloadRefused(f"its {part} {refused}") from refused.__cause__


def deserializers_of(options: ConsumerOptions, key: Any = None, value: Any = None) -> Deserializers:
    """By functions, or by what keys and values are to be; None: as they are."""
    return Deserializers(
        _decoder("key", options.get("key_deserializer"), key),
        _decoder("value", options.get("value_deserializer"), value),
    )


def _decoder(part: str, deserialize: Callable[[bytes], Any] | None, kind: Any) -> Decoder | None:
    if deserialize is None:
        return None if kind is None else decoder_of(kind)
    if not callable(deserialize):
        raise ConfigError(f"{part}_deserializer is {deserialize!r}, and must be a function")
    if kind is not None:
        raise ConfigError(f"{part} and {part}_deserializer exclude each other")
    return lambda content: None if content is None else deserialize(content)


def as_one(pieces: "list[pa.RecordBatch]", columns: Collection[str]) -> "pa.RecordBatch":
    import pyarrow as pa

    from semel.client.columns.schema import schema_of

    if len(pieces) == 1:
        return pieces[0]
    schema = schema_of(columns)
    batches = pa.Table.from_batches(pieces, schema).combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)


def columns_or_all(columns: Collection[str] | None) -> tuple[str, ...]:
    from semel.client.columns.schema import COLUMNS, schema_of

    return tuple(schema_of(COLUMNS if columns is None else columns).names)
