"""What a listener's function wants of a record, by the annotation of its first parameter.

Record, or nothing       the record as it is
Record[str, Order]       with its key as str, and its value as an Order
Order                    its value alone, as an Order
list[Record[…]]          some records at a time
RecordBatch              columns; Arrow's own type
"""

import enum
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from semel.client.consuming.deserializers import Deserializers
from semel.client.consuming.record import Record
from semel.errors import ConfigError

_LISTS = (list, Sequence, Iterable)
_COLUMNS = "RecordBatch"
_PLAIN = frozenset({"Record", "list[Record]", "Any", "object"})
"""Names that are taken without being looked up, as they may be there for type checkers alone."""


class CallShape(enum.Enum):
    """What the function is called with."""

    RECORD = "one record"
    RECORDS = "a list of records"
    COLUMNS = "an Arrow batch"


class Payload(NamedTuple):
    shape: CallShape
    key: Any = None
    """What to make of keys; None: nothing is said."""
    value: Any = None
    is_value_alone: bool = False
    """Whether the function gets values in place of records."""

    def opened(self, content: Any, deserializers: Deserializers) -> Any:
        """What the function is called with for these records."""
        if self.shape is CallShape.COLUMNS:
            return content
        if isinstance(content, Record):
            return self._opened(content, deserializers)
        return [self._opened(record, deserializers) for record in content]

    def _opened(self, record: Record, deserializers: Deserializers) -> Any:
        opened = record if deserializers.are_none else deserializers.opened(record)
        return opened.value if self.is_value_alone else opened


def payload_of(function: Callable[..., Any], batch: bool | str) -> Payload:
    """As it was asked for by `batch`, and as the first parameter is annotated."""
    if batch not in (True, False, "arrow"):
        raise ConfigError(f"batch is True, False or 'arrow', not {batch!r}")
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if batch == "arrow" or (first is not None and last_name_of(first) == _COLUMNS):
        return Payload(CallShape.COLUMNS)
    wanted = Any if first is None or first.annotation is first.empty else _resolved(function, first)
    is_list = get_origin(wanted) in _LISTS or wanted in _LISTS
    (element,) = get_args(wanted) if is_list and get_args(wanted) else (Any,)
    if is_list and (batch or _is_record(element)):
        return _of_each(CallShape.RECORDS, element)
    return _of_each(CallShape.RECORDS if batch else CallShape.RECORD, wanted)


def last_name_of(parameter: inspect.Parameter) -> str:
    """The last part of the name that it is annotated with, however that was written."""
    found = parameter.annotation
    name: str = found if isinstance(found, str) else getattr(found, "__name__", "")
    return name.rpartition(".")[2]


def _is_record(wanted: Any) -> bool:
    return wanted is Record or get_origin(wanted) is Record


def _of_each(shape: CallShape, wanted: Any) -> Payload:
    if get_origin(wanted) is Record:
        return Payload(shape, *get_args(wanted))
    if wanted in (Record, Any, object) or isinstance(wanted, TypeVar):
        return Payload(shape)
    return Payload(shape, None, wanted, is_value_alone=True)


def _resolved(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    written = parameter.annotation
    if isinstance(written, str) and written.replace("semel.", "") in _PLAIN:
        return list[Record] if "list" in written else Record
    source = inspect.unwrap(function)

    def shown() -> None: ...

    # Of this parameter alone: names that others need may be there for type checkers only.
    shown.__annotations__ = {parameter.name: written}
    try:
        found = get_type_hints(shown, globalns=getattr(source, "__globals__", None))
    except Exception as error:
        raise ConfigError(
            f"listener {function.__qualname__}: {parameter.name} is annotated with {written}, "
            f"which cannot be looked up ({error}): import it at the top of the module"
        ) from error
    return found[parameter.name]
