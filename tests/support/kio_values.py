"""Random messages as kio sees them: kio's bytes, and the same values in our terms."""

import dataclasses
import io
import types
import typing
import uuid
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from message_schema import RENAMED
from newer_schemas import kio_class

__all__ = ["kio_bytes", "kio_class", "ours", "random_value"]

INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def kio_bytes(value: Any) -> bytes:
    output = io.BytesIO()
    entity_writer(type(value))(output, value)
    return output.getvalue()


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if isinstance(annotation, types.UnionType):
        (inner,) = (item for item in typing.get_args(annotation) if item is not types.NoneType)
        return inner, True
    return annotation, False


def random_value(kio: Any, random: Random, *, tags: bool = True) -> Any:
    """A random message; without `tags`, its outermost structure sends no tagged field."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kio):
        annotation, nullable = _without_none(field.type)
        tagged = "tag" in field.metadata
        if tagged and (not tags or random.random() < 0.5):
            continue
        if nullable and not tagged and random.random() < 0.3:
            values[field.name] = None
            continue
        kind = field.metadata.get("kafka_type")
        if typing.get_origin(annotation) is tuple:
            element = typing.get_args(annotation)[0]
            count = random.choice((0, 1, 2, 3)) if random.random() < 0.99 else 200
            values[field.name] = tuple(_random(element, kind, random) for _ in range(count))
        else:
            values[field.name] = _random(annotation, kind, random)
    return kio(**values)


def _random(annotation: Any, kind: str | None, random: Random) -> Any:  # noqa: PLR0911
    if dataclasses.is_dataclass(annotation):
        return random_value(annotation, random)
    if kind in INTEGER_BITS:
        half = 2 ** (INTEGER_BITS[kind] - 1)
        return random.choice((0, -1, half - 1, -half, random.randrange(-half, half)))
    match kind:
        case "bool":
            return random.random() < 0.5
        case "string":
            return "".join(random.choices("abcé☃", k=random.choice((0, 1, 5, 126, 127, 130))))
        case "bytes" | "records":
            return random.randbytes(random.choice((0, 1, 5, 126, 127, 130, 20_000)))
        case "float64":
            return random.choice((0.0, -1.5, random.uniform(-1e9, 1e9)))
        case "uint16":
            return random.choice((0, 1, 2**16 - 1, random.randrange(2**16)))
        case "uuid":
            return uuid.UUID(bytes=random.randbytes(16))
        case "error_code":
            return random.choice(tuple(ErrorCode))
        case "timedelta_i32":
            return timedelta(milliseconds=random.randrange(-(2**31), 2**31))
        case "timedelta_i64":
            return timedelta(milliseconds=random.randrange(0, 2**45))
        case "datetime_i64":
            return EPOCH + timedelta(milliseconds=random.randrange(0, 2**42))
    raise AssertionError(f"no random values of kind {kind}")


def ours(value: Any, module: Any) -> Any:
    """The same message as an instance of the class of that name in `module`."""
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        kind = field.metadata.get("kafka_type", "")
        name = field.name + ("_ms" if "time" in kind else "")
        kio_value = getattr(value, field.name)
        if "tag" in field.metadata and dataclasses.is_dataclass(kio_value):
            fields[name] = None if kio_value == field.default else ours(kio_value, module)
        else:
            fields[name] = _plain(kio_value, kind, module)
    return getattr(module, _class_name(type(value)))(**fields)


def _class_name(kio: type) -> str:
    _, _, api, _, direction = kio.__module__.split(".")
    return RENAMED.get((api, direction, kio.__name__), kio.__name__)


def _plain(value: Any, kind: str, module: Any) -> Any:  # noqa: PLR0911
    if isinstance(value, tuple):
        return [_plain(element, kind, module) for element in value]
    if dataclasses.is_dataclass(value):
        return ours(value, module)
    match value:
        case None if kind == "uuid":
            return bytes(16)
        case None if kind == "datetime_i64":
            return -1
        case ErrorCode():
            return value.value
        case timedelta():
            return value // timedelta(milliseconds=1)
        case datetime():
            return (value - EPOCH) // timedelta(milliseconds=1)
        case uuid.UUID():
            return value.bytes
    return value
