"""Records as tests hold them, beside the Arrow columns that should say the same."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import strategies as st

from semel.client.columns.encode import RecordRows, rows_from
from semel.client.columns.headers import HEADERS
from semel.records.records import Record

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

optional_bytes = st.none() | st.binary(max_size=80)
one_record = st.builds(
    Record,
    key=optional_bytes,
    value=optional_bytes,
    timestamp_ms=st.integers(0, 2**46),
    headers=st.lists(st.tuples(st.text(max_size=10), optional_bytes), max_size=3).map(tuple),
    offset=st.just(-1),
)
# Runs of one size among records of any size, since machines write the one and people the other.
some_records = st.lists(
    st.tuples(one_record, st.sampled_from([1, 1, 1, 2, 20, 90])), min_size=1, max_size=6
).map(lambda runs: [record for record, count in runs for _ in range(count)])


def rows_of(records: Sequence[Record]) -> RecordRows:
    has_headers = any(record.headers for record in records)
    return rows_from(
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        pa.array([record.timestamp_ms for record in records], pa.int64()),
        pa.array([list(record.headers) or None for record in records], HEADERS)
        if has_headers
        else None,
    )


def records_of(decoded: pa.RecordBatch | pa.Table) -> list[Record]:
    """Needs the columns key, value, timestamp, headers and offset."""
    return [
        Record(
            row["key"],
            row["value"],
            (row["timestamp"] - EPOCH) // timedelta(milliseconds=1),
            tuple((pair["key"], pair["value"]) for pair in row["headers"] or ()),
            row["offset"],
        )
        for row in decoded.to_pylist()
    ]
