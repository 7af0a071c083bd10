"""How records are printed: by a format with percent signs as kcat has them, or as JSON.

%t topic       %p partition     %o offset       %T timestamp in milliseconds
%k key         %K its length    %s, %v value    %S, %V its length
%h headers     %% a percent sign                \\n \\t \\r \\\\ \\0 \\xFF
"""

import base64
import json
import re
from collections.abc import Callable
from typing import Protocol

from semel.client.consuming.record import Record
from semel.errors import ConfigError

Printer = Callable[[Record], bytes]

_PIECE = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\(.)|([^%\\]+)|(.)", re.DOTALL)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_NULL_LENGTH = -1


def _length(value: bytes | None) -> bytes:
    return b"%d" % (_NULL_LENGTH if value is None else len(value))


def _headers(record: Record) -> bytes:
    return b",".join(
        name.encode() + b"=" + (b"NULL" if value is None else value)
        for name, value in record.headers
    )


_FIELDS: dict[str, Printer] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp_ms,
    "k": lambda record: record.key or b"",
    "K": lambda record: _length(record.key),
    "s": lambda record: record.value or b"",
    "v": lambda record: record.value or b"",
    "S": lambda record: _length(record.value),
    "V": lambda record: _length(record.value),
    "h": _headers,
    "%": lambda record: b"%",
}


def printer(text: str) -> Printer:
    """A function that prints a record as the format says."""
    if text.strip().lower() == "json":
        raise ConfigError(f"a format of {text!r} prints that word alone: --json prints objects")
    pieces: list[bytes | Printer] = []
    for match in _PIECE.finditer(text):
        field, hexadecimal, escaped, literal, stray = match.groups()
        if field is not None:
            if field not in _FIELDS:
                known = " ".join(f"%{name}" for name in _FIELDS)
                raise ConfigError(f"%{field} is not a part of a record: there are {known}")
            pieces.append(_FIELDS[field])
        elif hexadecimal is not None:
            pieces.append(bytes.fromhex(hexadecimal))
        elif escaped is not None:
            if escaped not in _ESCAPES:
                raise ConfigError(f"\\{escaped} is not an escape: there are \\n \\t \\r \\0 \\xFF")
            pieces.append(_ESCAPES[escaped])
        elif literal is not None:
            pieces.append(literal.encode())
        else:
            raise ConfigError(f"the format ends with a lone {stray}")

    def print_record(record: Record) -> bytes:
        return b"".join(piece if isinstance(piece, bytes) else piece(record) for piece in pieces)

    return print_record


def as_json(record: Record) -> bytes:
    """One object per line. Bytes that are not UTF-8 come as base64 under another name."""
    fields: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
    }
    add_content(fields, record)
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


class Content(Protocol):
    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]: ...


def add_content(fields: dict[str, object], record: Content) -> None:
    """Key, value and headers."""
    _add_bytes(fields, "key", record.key)
    _add_bytes(fields, "value", record.value)
    if record.headers:
        headers = []
        for name, value in record.headers:
            header: dict[str, object] = {"key": name}
            _add_bytes(header, "value", value)
            headers.append(header)
        fields["headers"] = headers


def _add_bytes(fields: dict[str, object], name: str, value: bytes | None) -> None:
    try:
        fields[name] = None if value is None else value.decode()
    except UnicodeDecodeError:
        assert value is not None
        fields[f"{name}_base64"] = base64.b64encode(value).decode()
