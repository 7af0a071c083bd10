"""Records and columns as the application asked for them: deserialized, and columns as one batch."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from semel.client.consuming.positions import Positions
from semel.client.consuming.record import Record
from semel.client.consuming.refusals import UndeliverableRecord
from semel.client.consuming.settings import ConsumerOptions

if TYPE_CHECKING:
    import pyarrow as pa

Deserializer = Callable[[bytes], Any]


class Deserializers(NamedTuple):
    """What makes of a key or a value that is there what the application asked for."""

    key: Deserializer | None
    value: Deserializer | None

    @property
    def are_none(self) -> bool:
        return self.key is None and self.value is None

    def opened(self, record: Record) -> Record:
        key, value = record.key, record.value
        if self.key is not None and key is not None:
            key = self.key(key)
        if self.value is not None and value is not None:
            value = self.value(value)
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


def deserializers_of(options: ConsumerOptions) -> Deserializers:
    return Deserializers(options.get("key_deserializer"), options.get("value_deserializer"))


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
