"""What passes between the producer's core and whoever drives it."""

from typing import NamedTuple

from semel.client.producing.batch import Batch
from semel.errors import RequestError


class Request(NamedTuple):
    """One Produce: at most one batch of each partition that this broker leads."""

    node_id: int
    batches: list[Batch]


class Answer(NamedTuple):
    """What a broker said of one batch."""

    error: RequestError | None
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1


class Work(NamedTuple):
    requests: list[Request]
    wake_at_ms: float | None
    """When to drain again, unless something happens before."""


def sooner(at_ms: float | None, other_ms: float | None, now_ms: float) -> float | None:
    """The earlier of two times; one that has come waits for something else than time."""
    if other_ms is None or other_ms <= now_ms:
        return at_ms
    return other_ms if at_ms is None else min(at_ms, other_ms)
