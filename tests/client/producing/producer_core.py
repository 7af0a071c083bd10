"""A producer's core on the table: put records in, take requests out, answer them."""

from typing import Any

from semel.client.producing.batch import ProducerBatch
from semel.client.producing.core import ProducerCore
from semel.client.producing.requests import BatchAnswer, Request
from semel.client.producing.settings import ProducerSettings
from semel.errors import (
    RequestError,
)
from semel.types import ProducerIdAndEpoch, TopicPartition

PLACE = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
PRODUCER = ProducerIdAndEpoch(7, 0)
LATER_MS = 1_000.0
"""After every pause between attempts, and before every deadline."""


def made(**settings: Any) -> ProducerCore:
    named = {"batch_size_max": 1, "linger_ms": 0, **settings}
    core = ProducerCore(ProducerSettings(**named))
    core.adopt(PRODUCER)
    core.learn_leaders([(PLACE, 1), (OTHER, 1)])
    return core


def put(core: ProducerCore, value: bytes = b"x", place: TopicPartition = PLACE) -> ProducerBatch:
    return core.append(core.queue(place), None, value, (), 0)


def drained(core: ProducerCore, now_ms: float = 0) -> list[Request]:
    requests: list[Request] = []
    while found := core.drain(now_ms).requests:
        requests += found
    return requests


def answer(
    core: ProducerCore, request: Request, error: RequestError | None = None, at_ms: float = 0
) -> None:
    core.answered(request, [BatchAnswer(error, 0)] * len(request.batches), at_ms)


def recognised(**settings: Any) -> ProducerCore:
    """A core whose first batch, sequence 0, is acknowledged."""
    core = made(**settings)
    put(core)
    (request,) = drained(core)
    answer(core, request)
    return core


def positions(requests: list[Request]) -> list[int | None]:
    return [batch.position for request in requests for batch in request.batches]
