"""A figure, the limit it is held to, and what measurements share."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from semel.testing import Broker


class Figure(NamedTuple):
    """One line of the result. `limit` is what it is held to, with `<=` or `>=` before it."""

    name: str
    value: float
    limit: str
    detail: dict[str, float]

    @property
    def holds(self) -> bool:
        relation, bound = self.limit.split()
        return self.value <= float(bound) if relation == "<=" else self.value >= float(bound)


class NotMeasured(Exception):
    """What a measure needs is not to be had here; the message says what."""


class Plan(NamedTuple):
    seconds: float
    """How long each load runs."""
    repeats: int


@contextmanager
def durable_broker(*arguments: str, **settings: object) -> Iterator[Broker]:
    with tempfile.TemporaryDirectory(prefix="semel-bench-") as folder:
        names = {name.replace("_", "."): value for name, value in settings.items()}
        with Broker(data=folder, settings=names, arguments=arguments) as broker:
            yield broker
