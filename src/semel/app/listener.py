"""A listener as it was declared: which function gets which records of which topics."""

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from semel.app.cycle import Rules
from semel.app.outbox import Outbox
from semel.app.payload import CallShape, Payload, last_name_of
from semel.client.consuming.deserializers import Deserializers
from semel.client.consuming.settings import ConsumerOptions
from semel.errors import ConfigError
from semel.topic_names import check_name

Topics = tuple[str, ...] | re.Pattern[str]


@dataclass(frozen=True, eq=False)
class Listener:
    name: str
    function: Callable[..., Any]
    topics: Topics
    group: str
    is_transactional: bool
    payload: Payload
    takes_outbox: bool
    is_coroutine: bool
    rules: Rules
    records_max: int
    """How many records a cycle, and so a transaction, has at most."""
    cycle_ms_max: int
    """After this time no further record is begun in a cycle; what is done is committed."""
    concurrency: int
    deserializers: Deserializers
    consumer_options: ConsumerOptions

    def __post_init__(self) -> None:
        if self.shape is CallShape.COLUMNS and not self.deserializers.are_none:
            raise ConfigError(
                f"listener {self.name}: a deserializer is for records, and it gets an Arrow batch"
            )
        dead_letters = self.rules.dead_letters
        if dead_letters is not None and self._listens_to(dead_letters):
            raise ConfigError(
                f"listener {self.name}: it listens to its own dead_letters, {dead_letters!r}: what "
                "failed would fail again for ever"
            )

    def _listens_to(self, topic: str) -> bool:
        if isinstance(self.topics, re.Pattern):
            return self.topics.fullmatch(topic) is not None
        return topic in self.topics

    @property
    def shape(self) -> CallShape:
        return self.payload.shape

    @property
    def needs_transactions(self) -> bool:
        """For its own work, or to lay a record aside and commit its offset in one step."""
        return self.is_transactional or self.rules.dead_letters is not None

    def call(self, content: Any, outbox: Outbox) -> Any:
        """What the function returns: a coroutine, if it is one."""
        content = self.payload.opened(content, self.deserializers)
        return self.function(content, outbox) if self.takes_outbox else self.function(content)


def topics_of(topics: str | Sequence[str] | re.Pattern[str]) -> Topics:
    if isinstance(topics, re.Pattern):
        return topics
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    if not names:
        raise ConfigError("a listener needs a topic")
    for name in names:
        check_name(name)
    return names


def check_runs(function: Callable[..., Any]) -> None:
    """Whether to call it is to have it run."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(
            f"listener {function.__qualname__}: it has a yield, and a call of it would do "
            "nothing: what it makes of a record goes out by `out.send`"
        )


def takes_outbox(function: Callable[..., Any]) -> bool:
    """Whether the function has a second parameter, for what it sends."""
    needed = _needed(function)
    if not 1 <= len(needed) <= _PARAMETERS_MAX:
        raise ConfigError(
            f"listener {function.__qualname__}: it is called with a record, and with an outbox "
            f"if it has a second parameter; it has {len(needed)} parameters"
        )
    return len(needed) == _PARAMETERS_MAX


def check_promise(listener: Listener) -> None:
    """A function that is written for transactions never runs without them."""
    if listener.takes_outbox and not listener.is_transactional:
        outbox = _needed(listener.function)[1]
        if last_name_of(outbox) == "Transaction":
            raise ConfigError(
                f"listener {listener.name}: it takes a Transaction, and is not @app.transactional"
            )


def layers_of(function: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """The function, and those that it wraps."""
    layer: Callable[..., Any] | None = function
    while layer is not None:
        yield layer
        layer = getattr(layer, "__wrapped__", None)


def _needed(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = inspect.signature(function).parameters.values()
    positional = [each for each in parameters if each.kind in _POSITIONAL]
    return [each for each in positional if each.default is each.empty]


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_PARAMETERS_MAX = 2
