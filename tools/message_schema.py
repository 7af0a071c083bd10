"""Kafka's message schemas, read from kio's classes and merged over the versions we know."""

import dataclasses
import types
import typing
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from newer_schemas import kio_class

from semel.wire.apis import Api

FIXED = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
"""Kinds of a fixed size: the letter of `struct` and the size in bytes."""

# kio turns these into richer types and drops the unit from the name; we keep
# the number that is on the wire, and its unit.
PLAIN_KIND = {
    "error_code": "int16",
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
}
TIME_KINDS = ("timedelta_i32", "timedelta_i64", "datetime_i64")

RENAMED = {
    ("alter_client_quotas", "response", "EntryData"): "EntryResult",
    ("describe_quorum", "request", "TopicData"): "TopicRequest",
    ("describe_quorum", "request", "PartitionData"): "PartitionRequest",
}
"""Structures of which a request and its reply have two kinds under one name."""

PYTHON_TYPE = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "uuid": "bytes",
}


@dataclasses.dataclass(frozen=True)
class Field:
    name: str
    kind: str
    array: bool
    nullable: bool
    tag: int | None
    structure: "Structure | None"
    # Two versions that differ in nothing but a default have one layout.
    default: Any = dataclasses.field(compare=False)
    kio_name: str = dataclasses.field(compare=False)

    @property
    def fixed(self) -> bool:
        return self.kind in FIXED and not self.array

    @property
    def optional_structure(self) -> bool:
        """A tagged structure is None where it is not sent."""
        return self.tag is not None and self.structure is not None and not self.array


@dataclasses.dataclass(frozen=True)
class Structure:
    name: str
    flexible: bool
    fields: tuple[Field, ...]

    @property
    def plain(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.tag is None)

    @property
    def tagged(self) -> tuple[Field, ...]:
        tagged = [field for field in self.fields if field.tag is not None]
        return tuple(sorted(tagged, key=lambda field: field.tag or 0))

    def wire_size_min(self) -> int:
        """No value of this structure takes fewer bytes; it bounds the count of an array."""
        return sum(field_size_min(field, self.flexible) for field in self.plain) + self.flexible


@dataclasses.dataclass(frozen=True)
class Layout:
    """Successive versions of a message that are the same on the wire."""

    structure: Structure
    version_min: int
    version_max: int

    @property
    def versions(self) -> range:
        return range(self.version_min, self.version_max + 1)


def field_size_min(field: Field, flexible: bool) -> int:
    if field.array:
        return 1 if flexible else 4
    if field.kind == "structure":
        assert field.structure is not None
        return 1 if field.nullable else field.structure.wire_size_min()
    if field.kind in FIXED:
        return FIXED[field.kind][1]
    if flexible:
        return 1
    return 2 if field.kind == "string" else 4


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if isinstance(annotation, types.UnionType):
        (inner,) = (item for item in typing.get_args(annotation) if item is not types.NoneType)
        return inner, True
    return annotation, False


def _field(declared: "dataclasses.Field[Any]") -> Field:
    annotation, nullable = _without_none(declared.type)
    array = typing.get_origin(annotation) is tuple
    if array:
        annotation = typing.get_args(annotation)[0]
    structure = read_structure(annotation) if dataclasses.is_dataclass(annotation) else None
    kio_kind: str = declared.metadata.get("kafka_type", "structure")
    kind = PLAIN_KIND.get(kio_kind, kio_kind)
    name = declared.name
    if kio_kind in TIME_KINDS:
        name += "_ms"
    if kind in FIXED and not array:
        # kio maps a reserved number of such a kind to None; on the wire it is a number.
        nullable = False
    return Field(
        name=name,
        kind=kind,
        array=array,
        nullable=nullable,
        tag=declared.metadata.get("tag"),
        structure=structure,
        default=_default(declared.default, kind, array, kio_kind),
        kio_name=declared.name,
    )


def _default(declared: Any, kind: str, array: bool, kio_kind: str) -> Any:
    """The value that Kafka's schema gives, or MISSING."""
    plain = declared
    if declared is dataclasses.MISSING:
        plain = declared
    elif array:
        plain = [] if declared is not None else None
    elif kind == "structure":
        plain = None
    elif isinstance(declared, timedelta):
        plain = round(declared.total_seconds() * 1000)
    elif kio_kind == "error_code":
        plain = int(declared.value)
    elif declared is None and kind == "uuid":
        plain = bytes(16)
    elif declared is None and kind in FIXED:
        plain = -1
    elif isinstance(declared, bool):
        plain = bool(declared)
    elif isinstance(declared, int):
        plain = int(declared)
    return plain


def read_structure(kio: Any) -> Structure:
    *_, module, _, direction = kio.__module__.split(".")
    return Structure(
        name=RENAMED.get((module, direction, kio.__name__), kio.__name__),
        flexible=kio.__flexible__,
        fields=tuple(map(_field, dataclasses.fields(kio))),
    )


def layouts(api: Api, direction: str) -> list[Layout]:
    found: list[Layout] = []
    for version in range(api.version_min, api.version_max + 1):
        structure = read_structure(kio_class(api.module, version, direction))
        if found and found[-1].structure == structure:
            found[-1] = dataclasses.replace(found[-1], version_max=version)
        else:
            found.append(Layout(structure, version, version))
    return found


@dataclasses.dataclass(frozen=True)
class MergedField:
    name: str
    python_type: str
    default: str


@dataclasses.dataclass(frozen=True)
class MergedStructure:
    """One class for all versions of a structure."""

    name: str
    fields: tuple[MergedField, ...]


def nested(structure: Structure) -> Iterator[Structure]:
    """The structure and all inside it, inner ones first."""
    for field in structure.fields:
        if field.structure is not None:
            yield from nested(field.structure)
    yield structure


def merge(found: Iterable[Layout], direction: str) -> dict[str, MergedStructure]:
    versions: dict[str, list[Structure]] = {}
    for layout in found:
        for structure in nested(layout.structure):
            versions.setdefault(structure.name, []).append(structure)
    return {
        name: MergedStructure(name, tuple(_merge_fields(versions[name], direction)))
        for name in _inner_first(versions)
    }


def _inner_first(versions: dict[str, list[Structure]]) -> list[str]:
    """Names in an order in which a class stands behind those that its fields name."""
    order: dict[str, None] = {}

    def visit(name: str) -> None:
        for structure in versions[name]:
            for field in structure.fields:
                if field.structure is not None:
                    visit(field.structure.name)
        order.setdefault(name)

    for name in versions:
        visit(name)
    return list(order)


def _merge_fields(same: list[Structure], direction: str) -> Iterator[MergedField]:
    order: list[str] = []
    by_name: dict[str, list[Field]] = {}
    for structure in same:
        at = 0
        here = {field.name for field in structure.fields}
        for field in structure.fields:
            if field.name in by_name:
                at = order.index(field.name) + 1
            else:
                is_replaced = at < len(order) and order[at] not in here
                if is_replaced and (field.kind == "uuid" or field.tag is not None):
                    # The id of a topic that takes the place of its name, and a tagged field that
                    # was a plain one: all before stay where they were.
                    order.append(field.name)
                    by_name.setdefault(field.name, []).append(field)
                    continue
                order.insert(at, field.name)
                at += 1
            by_name.setdefault(field.name, []).append(field)
    for name in order:
        yield MergedField(
            name, _python_type(by_name[name], direction), repr(_merged_default(by_name[name]))
        )


def _python_type(same: list[Field], direction: str) -> str:
    field = same[-1]
    if field.structure is not None:
        inner = field.structure.name
    elif field.kind == "records":
        # Only replies are put together from parts that lie apart.
        inner = "Buffer" if direction == "request" else "Records"
    else:
        inner = PYTHON_TYPE.get(field.kind, "int")
    if field.array:
        inner = f"list[{inner}]"
    if field.optional_structure or any(version.nullable for version in same):
        inner += " | None"
    return inner


def _merged_default(same: list[Field]) -> Any:
    field = same[-1]
    if field.optional_structure:
        return None
    if field.default is not dataclasses.MISSING:
        return field.default
    # A value that is right in every version: null only where each can say it.
    if all(version.nullable for version in same):
        return None
    if field.array:
        return []
    zero = {"bool": False, "string": "", "bytes": b"", "records": b"", "uuid": bytes(16)}
    return zero.get(field.kind, 0)
