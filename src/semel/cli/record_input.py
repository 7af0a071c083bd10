"""Records as lines of JSON: what `semel consume --json` prints, or someone writes by hand."""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from semel.errors import SemelError
from semel.records.records import Record, RecordHeader
from semel.spelling import hint_at

_CONTENT = ("key", "key_base64", "value", "value_base64", "headers", "timestamp", "partition")
_PASSED_OVER = ("topic", "offset")
"""With the partition beside them, where a record was read: not where it is sent."""
_TIMES = range(-1, 2**63)
"""From the one of a record that has none."""
_PARTITIONS = range(2**31)


class NoRecord(SemelError):
    """A line is no record; the message says why, and follows on where the line is."""


class PlacedRecord(NamedTuple):
    record: Record
    partition: int | None


def placed_record(line: bytes, now_ms: int) -> PlacedRecord:
    """The record of a line, and the partition if it names one."""
    try:
        found = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise NoRecord("is not JSON") from None
    if not isinstance(found, dict):
        raise NoRecord("is not an object with key and value")
    for name in found:
        if name not in (*_CONTENT, *_PASSED_OVER):
            hint = hint_at(name, _CONTENT) or "; an object as the value stands under value"
            raise NoRecord(f"has an unknown field {name!r}{hint}")
    key, value = _bytes(found, "key"), _bytes(found, "value")
    if not found.keys() & {"value", "value_base64"}:
        raise NoRecord("has no value; null is the value of a tombstone")
    timestamp_ms = _number(found, "timestamp", _TIMES, "milliseconds since 1970, and none before")
    partition = _number(found, "partition", _PARTITIONS, "one of the topic's")
    if "offset" in found:
        partition = None  # Where it was read; another topic may have fewer.
    record = Record(key, value, now_ms if timestamp_ms is None else timestamp_ms, _headers(found))
    return PlacedRecord(record, partition)


def check_partition(placed: PlacedRecord, topic: str, partition_count: int) -> None:
    if placed.partition is not None and placed.partition >= partition_count:
        raise NoRecord(
            f"has {placed.partition} as its partition, and topic {topic} has {partition_count}, "
            "counted from 0"
        )


def _refuse_constant(name: str) -> NoReturn:
    raise NoRecord(f"has {name}, which is not JSON")


def _bytes(fields: Mapping[str, object], name: str) -> bytes | None:
    encoded = f"{name}_base64"
    if encoded in fields:
        text = fields[encoded]
        if name in fields:
            raise NoRecord(f"has both {name} and {encoded}")
        try:
            return base64.b64decode(text if isinstance(text, str) else "?", validate=True)
        except (binascii.Error, ValueError):
            raise NoRecord(f"has a {encoded} that is not base64") from None
    value = fields.get(name)
    if value is None:
        return None
    try:
        return (value if isinstance(value, str) else _as_json(value)).encode()
    except UnicodeEncodeError:
        raise NoRecord(f"has a {name} with half of a surrogate pair") from None
    except ValueError:
        # One beyond the range of a double was read as infinite, which has no words in JSON.
        raise NoRecord(f"has a number in its {name} that is too large") from None


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _number(fields: Mapping[str, object], name: str, possible: range, meaning: str) -> int | None:
    number = fields.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or number not in possible:
        raise NoRecord(f"has {number!r:.60} as its {name}, which is a whole number: {meaning}")
    return number


def _headers(fields: Mapping[str, object]) -> tuple[RecordHeader, ...]:
    found = fields.get("headers", ())
    if isinstance(found, dict):
        found = [{"key": name, "value": value} for name, value in found.items()]
    if not isinstance(found, list | tuple):
        raise NoRecord("has headers that are neither an object nor a list")
    headers: list[RecordHeader] = []
    for each in found:
        name = each.get("key") if isinstance(each, dict) else None
        if not isinstance(name, str):
            raise NoRecord("has a header without a key")
        headers.append((name, _bytes(each, "value")))
    return tuple(headers)
