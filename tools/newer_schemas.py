"""Kafka's message schemas as kio has them, and versions that it lacks, made from those before."""

import dataclasses
import importlib
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

KioField = tuple[str, Any, "dataclasses.Field[Any]"]
Change = Callable[[list[KioField]], list[KioField]]


def _by_id(fields: list[KioField]) -> list[KioField]:
    """The id of a topic takes the place of its name."""
    topic_id: Any = dataclasses.field(metadata={"kafka_type": "uuid"})
    return [
        ("topic_id", uuid.UUID | None, topic_id) if name == "name" else (name, kind, field)
        for name, kind, field in fields
    ]


def _with_error_message(fields: list[KioField]) -> list[KioField]:
    message: Any = dataclasses.field(metadata={"kafka_type": "string"}, default=None)
    return [*fields, ("error_message", str | None, message)]


CHANGES: Final[Mapping[tuple[str, int], Mapping[str, Change]]] = {
    # KIP-1319
    ("txn_offset_commit", 6): {
        "TxnOffsetCommitRequestTopic": _by_id,
        "TxnOffsetCommitResponseTopic": _by_id,
    },
    ("delete_groups", 3): {"DeletableGroupResult": _with_error_message},
}
"""What is new in the structures of a version, by their names."""


@cache
def kio_class(module: str, version: int, direction: str) -> Any:
    try:
        source = importlib.import_module(f"kio.schema.{module}.v{version}.{direction}")
    except ModuleNotFoundError:
        if (module, version) not in CHANGES:
            raise
        before = kio_class(module, version - 1, direction)
        return _changed(before, version, CHANGES[module, version])
    (found,) = (
        candidate
        for candidate in vars(source).values()
        if dataclasses.is_dataclass(candidate)
        and candidate.__module__ == source.__name__
        and vars(candidate)["__type__"].name == direction
    )
    return found


def _changed(before: Any, version: int, changes: Mapping[str, Change]) -> Any:
    fields: list[KioField] = []
    for field in dataclasses.fields(before):
        kind: Any = field.type
        if typing.get_origin(kind) is tuple:
            inner = typing.get_args(kind)[0]
            if dataclasses.is_dataclass(inner):
                kind = types.GenericAlias(tuple, (_changed(inner, version, changes), ...))
        fields.append(
            (
                field.name,
                kind,
                dataclasses.field(metadata=field.metadata, default=field.default),
            )
        )
    name = before.__name__
    if name in changes:
        fields = changes[name](fields)
    own = {
        each: value
        for each, value in vars(before).items()
        if each in ("__type__", "__flexible__", "__api_key__", "__header_schema__")
    }
    made: Any = dataclasses.make_dataclass(
        name,
        fields,
        namespace={**own, "__version__": type(before.__version__)(version)},
        frozen=True,
        slots=True,
        kw_only=True,
    )
    *_, module, _, direction = before.__module__.split(".")
    made.__module__ = f"kio.schema.{module}.v{version}.{direction}"
    return made
