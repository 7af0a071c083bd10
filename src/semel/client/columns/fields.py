"""The fields of records of any shape: numbers, and where keys, values and headers stand."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.client.columns.varints import Bytes, Numbers, binary_column, read_varints
from semel.errors import CorruptMessage

_ATTRIBUTES_SIZE = 1
_HEADER_SIZE_MIN = 2


class ValueSpan(NamedTuple):
    """Where a value of each record stands; a size of -1 is null."""

    begins: Numbers
    sizes: Numbers

    @property
    def ends(self) -> Numbers:
        return self.begins + np.maximum(self.sizes, 0)


class RecordFields(NamedTuple):
    timestamp_deltas_ms: Numbers
    offset_deltas: Numbers
    keys: ValueSpan
    values: ValueSpan
    header_counts: Numbers
    header_begins: Numbers
    ends: Numbers


def read_fields(buffer: Bytes, begins: Numbers, ends: Numbers) -> RecordFields:
    """The records that stand at `begins..ends`, each number compared with the room it has."""
    timestamp_deltas_ms, position = read_varints(buffer, begins + _ATTRIBUTES_SIZE)
    offset_deltas, position = read_varints(buffer, position)
    keys = read_span(buffer, position, ends, "key")
    values = read_span(buffer, keys.ends, ends, "value")
    header_counts, position = read_varints(buffer, values.ends)
    if (header_counts < 0).any() or (header_counts > (ends - position) // _HEADER_SIZE_MIN).any():
        raise CorruptMessage("a record has no room for the headers it counts")
    # Records without headers end here; the others where their last header does.
    if ((position != ends) & (header_counts == 0)).any():
        raise CorruptMessage("a record does not end where its size says")
    return RecordFields(
        timestamp_deltas_ms, offset_deltas, keys, values, header_counts, position, ends
    )


def joined(parts: Sequence[RecordFields]) -> RecordFields:
    def column(numbers: Callable[[RecordFields], Numbers]) -> Numbers:
        return np.concatenate([numbers(part) for part in parts])

    return RecordFields(
        column(lambda part: part.timestamp_deltas_ms),
        column(lambda part: part.offset_deltas),
        ValueSpan(column(lambda part: part.keys.begins), column(lambda part: part.keys.sizes)),
        ValueSpan(column(lambda part: part.values.begins), column(lambda part: part.values.sizes)),
        column(lambda part: part.header_counts),
        column(lambda part: part.header_begins),
        column(lambda part: part.ends),
    )


def read_span(buffer: Bytes, positions: Numbers, ends: Numbers, name: str) -> ValueSpan:
    sizes, begins = read_varints(buffer, positions)
    refuse_where((sizes < -1) | (sizes > ends - begins), f"{name} does not fit into its record")
    return ValueSpan(begins, sizes)


def refuse_where(is_wrong: npt.NDArray[np.bool_], reason: str) -> None:
    if is_wrong.any():
        raise CorruptMessage(f"record {int(is_wrong.argmax())} of a fetch: its {reason}")


def gather(plain: pa.Buffer, spans: list[ValueSpan]) -> list[pa.Array]:
    """Each of these spans, which do not overlap, as a binary column of its own.

    One column is laid over all bytes, of which every second value lies between two spans: Arrow
    then copies the wanted ones by their numbers.
    """
    count = spans[0].begins.size
    step = 2 * len(spans)
    offsets = np.empty(step * count + 1, np.int32)
    for number, span in enumerate(spans):
        offsets[2 * number : step * count : step] = span.begins
        offsets[2 * number + 1 : step * count : step] = span.ends
    offsets[-1] = offsets[-2] if count else 0
    whole = binary_column(offsets, plain)
    places = np.arange(0, step * count, step, dtype=np.int32)
    columns = []
    for number, span in enumerate(spans):
        is_null = span.sizes < 0
        wanted = places + np.int32(2 * number)
        columns.append(whole.take(pa.array(wanted, mask=is_null if is_null.any() else None)))
    return columns
