"""What several workers cost and bring: `semel serve --workers 2` beside one broker."""

import itertools
import statistics
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

from bench import load, processes
from bench.figures import Figure, Plan
from semel.testing import Broker

TOPIC = "bench"
COUNT = 2
SIZE = 1024
CONNECTIONS = 4
IN_FLIGHT = 5


class Measured(NamedTuple):
    us_per_request: float
    """CPU of all workers."""
    per_s: float
    share: float
    """Of all CPU that workers and clients took, that of the workers."""


class Driven(NamedTuple):
    replies: int
    seconds: float
    cpu_s: float


def produce_over_workers(plan: Plan) -> Iterator[Figure]:
    """Two clients that write acks=1 to a partition each, which lie in one process or in two."""
    measured: dict[int, list[Measured]] = {1: [], COUNT: []}
    with _broker(1) as alone, _broker(COUNT) as several, _clients() as clients:
        brokers = {1: alone, COUNT: several}
        for _, (count, broker) in itertools.product(range(plan.repeats), brokers.items()):
            measured[count].append(_measure(broker, count, clients, plan))
    one, two = (_median(measured[count]) for count in (1, COUNT))
    detail = {
        "one_us": one.us_per_request,
        "two_us": two.us_per_request,
        "one_per_s": one.per_s,
        "two_per_s": two.per_s,
        "one_share": one.share,
        "two_share": two.share,
    }
    name = "produce acks=1, 1 KB, 2 workers / 1"
    cost, rate = two.us_per_request / one.us_per_request, two.per_s / one.per_s
    yield Figure(f"{name}: CPU per request", cost, "<= 1.1", detail)
    yield Figure(f"{name}: rate, with clients on the same machine", rate, ">= 1", detail)


@contextmanager
def _broker(count: int) -> Iterator[Broker]:
    with tempfile.TemporaryDirectory(prefix="semel-bench-") as folder:
        settings = {"num.partitions": COUNT}
        with Broker(data=folder, settings=settings, workers=count) as broker:
            load.wait_for_topic(broker.port, TOPIC)
            yield broker


@contextmanager
def _clients() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(COUNT) as clients:
        yield clients


def _measure(broker: Broker, count: int, clients: ProcessPoolExecutor, plan: Plan) -> Measured:
    ids = [*broker.worker_process_ids.values()] or [broker.process_id]
    before = sum(map(processes.cpu_seconds, ids))
    ports = [broker.port + index % count for index in range(COUNT)]
    driven = list(clients.map(_drive, ports, range(COUNT), [plan.seconds] * COUNT))
    cpu_s = sum(map(processes.cpu_seconds, ids)) - before
    replies = sum(each.replies for each in driven)
    return Measured(
        1e6 * cpu_s / replies,
        sum(each.replies / each.seconds for each in driven),
        cpu_s / (cpu_s + sum(each.cpu_s for each in driven)),
    )


def _drive(port: int, index: int, seconds: float) -> Driven:
    frame = load.produce_request(TOPIC, index, SIZE, acks=1)
    before = processes.own_cpu_seconds()
    done = load.run(
        port, lambda: frame, connections=CONNECTIONS, in_flight=IN_FLIGHT, seconds=seconds
    )
    return Driven(done.replies, done.seconds, processes.own_cpu_seconds() - before)


def _median(measured: list[Measured]) -> Measured:
    return Measured(*map(statistics.median, zip(*measured, strict=True)))
