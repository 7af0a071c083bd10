"""What one poll brought: records, or a batch of columns, with the offsets they span."""

from typing import TYPE_CHECKING, NamedTuple

from semel.client.consuming.record import Record
from semel.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


class Portion(NamedTuple):
    content: "list[Record] | pa.RecordBatch"
    record_count: int
    firsts: dict[TopicPartition, int]
    """The offset of the first record of each partition."""
    nexts: dict[TopicPartition, int]
    """The offset behind the last record of each partition."""

    def records(self) -> list[Record]:
        return self.content if isinstance(self.content, list) else records_of(self.content)


def of_records(records: list[Record]) -> Portion:
    firsts: dict[TopicPartition, int] = {}
    nexts: dict[TopicPartition, int] = {}
    for record in records:
        partition = TopicPartition(record.topic, record.partition)
        firsts.setdefault(partition, record.offset)
        nexts[partition] = record.offset + 1
    return Portion(records, len(records), firsts, nexts)


def of_columns(batch: "pa.RecordBatch") -> Portion:
    import pyarrow as pa

    keys = ["topic", "partition"]
    spans = pa.table(batch.select([*keys, "offset"])).group_by(keys)
    firsts: dict[TopicPartition, int] = {}
    nexts: dict[TopicPartition, int] = {}
    for span in spans.aggregate([("offset", "min"), ("offset", "max")]).to_pylist():
        partition = TopicPartition(span["topic"], span["partition"])
        firsts[partition] = span["offset_min"]
        nexts[partition] = span["offset_max"] + 1
    return Portion(batch, batch.num_rows, firsts, nexts)


def column_names() -> tuple[str, ...]:
    """With headers, which a dead letter has to keep."""
    from semel.client.columns.schema import FIELDS

    return tuple(FIELDS)


def records_of(batch: "pa.RecordBatch") -> list[Record]:
    """The rows as records; meant for the few that are looked at one by one."""
    import pyarrow as pa

    times_ms = batch.column("timestamp").cast(pa.timestamp("ms", "UTC"), safe=False)
    rows = batch.set_column(
        batch.schema.get_field_index("timestamp"), "timestamp", times_ms.view(pa.int64())
    ).to_pylist()
    return [
        Record(
            topic=row["topic"],
            partition=row["partition"],
            offset=row["offset"],
            timestamp_ms=row["timestamp"],
            timestamp_type=row["timestampType"],
            key=row["key"],
            value=row["value"],
            headers=tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        )
        for row in rows
    ]


def columns_of(records: list[Record]) -> "pa.RecordBatch":
    """The reverse, for records that are tried again."""
    import pyarrow as pa

    from semel.client.columns.schema import FIELDS, schema_of

    columns = {
        "key": [record.key for record in records],
        "value": [record.value for record in records],
        "topic": [record.topic for record in records],
        "partition": [record.partition for record in records],
        "offset": [record.offset for record in records],
        "timestamp": [record.timestamp_ms * 1000 for record in records],
        "timestampType": [int(record.timestamp_type) for record in records],
        "headers": [
            [{"key": name, "value": value} for name, value in record.headers] for record in records
        ],
    }
    arrays = [pa.array(columns[name], kind) for name, kind in FIELDS.items()]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(tuple(FIELDS)))
