"""Tables as users have them: taken over by Arrow, and refused by the column that does not fit."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semel.client.columns.headers import HEADERS
from semel.client.columns.schema import FIELDS
from semel.errors import ConfigError

_TAKEN = "a table that Arrow can take over, a dict of columns or a list of dicts"
_PANDAS_INDEX = "__index_level_"
"""How Arrow names the column that it makes of an index without a name."""
_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)


def as_table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    try:
        if isinstance(data, Mapping):
            return pa.table({name: _as_column(name, values) for name, values in data.items()})
        if isinstance(data, list | tuple) and all(isinstance(row, Mapping) for row in data):
            return _table_of_rows(data)
        taken = pa.table(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ConfigError(_complaint(data, error)) from error
    return taken.drop_columns(
        [name for name in taken.column_names if name.startswith(_PANDAS_INDEX)]
    )


def _complaint(data: Any, error: Exception) -> str:
    if isinstance(error, pa.ArrowException):
        return f"data cannot be taken over by Arrow: {error}"
    kind = type(data).__name__
    if hasattr(data, "collect"):
        return f"data is a {kind}, which has no rows yet: collect it first"
    return f"data is of type {kind}: it has to be {_TAKEN}"


def _table_of_rows(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    # Arrow would take the columns from the first row alone.
    names = dict.fromkeys(name for row in rows for name in row) if rows else ["value"]
    return pa.table({name: _as_column(name, [row.get(name) for row in rows]) for name in names})


def _as_column(name: str, values: Any) -> Any:
    # Arrow would take each letter of a text for a row.
    if isinstance(values, str | bytes):
        raise ConfigError(f"column {name} is {values!r}: it has to be a list with a value per row")
    try:
        return values if isinstance(values, pa.ChunkedArray) else pa.array(values)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ConfigError(f"column {name} cannot be taken over by Arrow: {error}") from error


def fitting(table: pa.Table) -> pa.Table:
    """The table without columns that hold nothing, once all of them can be written."""
    names = table.column_names
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"the table has several columns {name!r}")
    unknown = [name for name in names if name not in FIELDS]
    if unknown:
        raise ConfigError(f"a topic has no column {unknown[0]!r}: it has {', '.join(FIELDS)}")
    if "value" not in names:
        raise ConfigError("the table has no column 'value'")
    filled = table.drop_columns([field.name for field in table.schema if _holds_nothing(field)])
    for field in filled.schema:
        if field.name in _FITS:
            fits, words = _FITS[field.name]
            if not fits(field.type):
                raise ConfigError(f"column {field.name} is {field.type}: it has to be {words}")
    if "headers" in filled.column_names:
        pairs = pc.list_flatten(filled.column("headers"))
        if pc.struct_field(pairs, "key").null_count:
            raise ConfigError("column headers has a header without key")
    return filled


def _holds_nothing(field: pa.Field) -> bool:
    kind = field.type
    if field.name == "headers" and _is_list(kind):
        kind = kind.value_type
    return field.name != "value" and bool(pa.types.is_null(kind))


def _is_text_or_bytes(kind: pa.DataType) -> bool:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return any(is_kind(plain) for is_kind in (*_TEXTS, *_BYTES, pa.types.is_null))


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_integer(kind))


def _are_headers(kind: pa.DataType) -> bool:
    if not _is_list(kind) or not pa.types.is_struct(kind.value_type):
        return False
    fields = list(kind.value_type)
    if [field.name for field in fields] != ["key", "value"]:
        return False
    key, value = (field.type for field in fields)
    return any(is_kind(key) for is_kind in _TEXTS) and _is_text_or_bytes(value)


def _is_list(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in _LISTS)


_FITS: dict[str, tuple[Callable[[pa.DataType], bool], str]] = {
    "key": (_is_text_or_bytes, "string or binary"),
    "value": (_is_text_or_bytes, "string or binary"),
    "partition": (pa.types.is_integer, "an integer"),
    "timestamp": (_is_time, "a timestamp, or an integer of milliseconds"),
    "headers": (_are_headers, str(HEADERS)),
}
