"""Keys and values as Python's types: bytes to what an annotation names, and back.

bytes                          as they are
str, UUID                      text in UTF-8; so are enumerations that are text
models of pydantic             JSON, checked by pydantic
all else that msgspec knows    JSON: Structs, dataclasses, TypedDicts, dicts, numbers, dates, unions
X | None                       also a record without a value, or without a key
"""

from collections.abc import Callable
from functools import reduce
from math import isfinite
from operator import or_
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin
from uuid import UUID

import msgspec
import msgspec.inspect

from semel.errors import ConfigError, SemelError

Decoder = Callable[[bytes | None], Any]
"""What a record has to what its reader asked for; raises PayloadRefused."""

_REASON_SIZE_MAX = 500


class PayloadRefused(SemelError):
    """A key or a value that is not what its reader asked for: it will not be at the next try.

    The message goes on after "its value", or "its key".
    """


def name_of(kind: Any) -> str:
    """As it is written in an annotation."""
    if isinstance(kind, type) and not get_args(kind):
        return kind.__name__
    return str(kind).replace("typing.", "")


def decoder_of(kind: Any) -> Decoder | None:
    """None where what is there is wanted as it is. Refuses what nothing can be made into."""
    if kind is Any or kind is object:
        return None
    if kind is None or kind is NoneType:
        raise ConfigError("None is no type for keys or values: Any takes them as they are")
    several = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    may_be_none = NoneType in several
    wanted = _union([each for each in several if each is not NoneType])
    open_bytes = _opening(wanted)
    if open_bytes is None and may_be_none:
        return None

    def decode(content: bytes | None) -> Any:
        if content is None:
            if may_be_none:
                return None
            name = name_of(wanted)
            raise PayloadRefused(f"is missing, and {name} is wanted; {name} | None takes both")
        if open_bytes is None:
            return content
        try:
            return open_bytes(content)
        except ValueError as error:
            raise PayloadRefused(f"is no {name_of(wanted)}: {_in_a_line(error)}") from error

    return decode


def _union(kinds: list[Any]) -> Any:
    return reduce(or_, kinds) if kinds else NoneType


def _opening(kind: Any) -> Callable[[bytes], Any] | None:
    if kind is bytes:
        return None
    text_type = getattr(kind, "__supertype__", kind)
    if text_type is str:
        return bytes.decode
    if isinstance(text_type, type) and issubclass(text_type, str | UUID):
        return lambda content: text_type(content.decode())
    if _is_of_pydantic(kind):
        from pydantic import TypeAdapter

        return TypeAdapter(kind).validate_json
    try:
        is_known = not isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.CustomType)
    except TypeError:
        is_known = False
    if not is_known:
        raise ConfigError(
            f"keys and values cannot be read as {name_of(kind)}: give bytes, str, a model, "
            "a Struct, a dataclass, a TypedDict or what else JSON can be checked against"
        )
    # What it says of an error is a ValueError, as is what is no UTF-8.
    return msgspec.json.Decoder(kind).decode


def _is_of_pydantic(kind: Any) -> bool:
    """A model, one of pydantic's dataclasses, or something made of these."""
    if hasattr(kind, "__get_pydantic_core_schema__") or hasattr(kind, "__pydantic_validator__"):
        return True
    return any(_is_of_pydantic(each) for each in get_args(kind))


def _in_a_line(error: Exception) -> str:
    """Of pydantic's several lines what was found where, without links to its pages."""
    tell = getattr(error, "errors", None)
    text = str(error)
    if callable(tell):
        text = "; ".join(
            ": ".join(filter(None, (".".join(map(str, each["loc"])), each["msg"])))
            for each in tell(include_url=False)
        )
    line = " ".join(text.split())
    return line if len(line) <= _REASON_SIZE_MAX else f"{line[:_REASON_SIZE_MAX]}…"


# Writing


def _of_model(content: object) -> object:
    """A model of pydantic within something else."""
    dump = getattr(content, "model_dump", None)
    if dump is None:
        raise TypeError(f"JSON has no {type(content).__name__}")
    # By alias, since that is what its own model reads.
    return dump(mode="json", by_alias=True)


_ENCODER = msgspec.json.Encoder(enc_hook=_of_model)


def _encode_json(content: object) -> bytes:
    made = _ENCODER.encode(content)
    # The encoder writes null for a number that JSON does not have: a reader would find none.
    if b"null" in made:
        _check_finite(msgspec.to_builtins(content, enc_hook=_of_model))
    return made


def _check_finite(content: object) -> None:
    if isinstance(content, float):
        if not isfinite(content):
            raise ValueError(f"JSON has no number {content}")
    elif isinstance(content, dict):
        for each in content.values():
            _check_finite(each)
    elif isinstance(content, list | tuple | set | frozenset):
        for each in content:
            _check_finite(each)


def encode(content: object) -> bytes | None:
    """Bytes as they are, text as UTF-8, all else as JSON."""
    if content is None or type(content) is bytes:
        return content
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    if isinstance(content, str):
        return str.encode(content)
    if isinstance(content, UUID):
        return str(content).encode()
    dump = getattr(content, "model_dump_json", None)
    try:
        return _encode_json(content) if dump is None else str(dump(by_alias=True)).encode()
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"a key or value of type {type(content).__name__} cannot be written "
            f"({_in_a_line(error)}): give bytes, str, what JSON can hold, or a serializer"
        ) from error
