"""Packing by lz4, beside the library's default level: time, and what it costs in size."""

import functools
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator

import lz4.frame
import numpy as np
import pyarrow as pa

from bench.figures import Figure, Plan
from bench.in_memory import columns
from semel.client.columns.encode import encode, rows_from
from semel.records.batch import HEADER_SIZE
from semel.records.compression import Compression, compress
from semel.types import Buffer

ROWS = 6_000


def lz4_packing(plan: Plan) -> Iterator[Figure]:
    """How fast what hardly repeats is passed by; orders in JSON are what does repeat."""
    detail: dict[str, float] = {}
    for name, rows in (("hexadecimal", columns(ROWS)), ("orders", _orders())):
        plain = _records(rows)
        at_default = functools.partial(lz4.frame.compress, plain, block_linked=False)
        ours = functools.partial(compress, Compression.LZ4, plain)
        detail |= {
            f"{name}_rate": _speed_up(plan, ours, at_default),
            f"{name}_size": len(ours()) / len(at_default()),
            f"{name}_lz4_ratio": len(plain) / len(ours()),
        }
    yield Figure(
        "lz4 of what hardly repeats: rate / its default level",
        detail["hexadecimal_rate"],
        ">= 1.5",
        detail,
    )


def _speed_up(plan: Plan, ours: Callable[[], Buffer], other: Callable[[], Buffer]) -> float:
    """In turn, as a machine is not equally fast all the time."""
    ratios = []
    until_s = time.perf_counter() + plan.seconds / 2
    while time.perf_counter() < until_s:
        started_s = time.perf_counter()
        ours()
        between_s = time.perf_counter()
        other()
        ratios.append((time.perf_counter() - between_s) / (between_s - started_s))
    return statistics.median(ratios)


def _records(rows: pa.RecordBatch) -> bytes:
    prepared = rows_from(rows.column("key"), rows.column("value"), headers=None, now_ms=1)
    [batch] = encode(prepared, np.zeros(rows.num_rows, np.int32))
    return batch.content[HEADER_SIZE:]


def _orders() -> pa.RecordBatch:
    dice = random.Random(7)
    keys = [b"%08d" % number for number in range(ROWS)]
    orders = [
        {
            "order": 100_000 + number,
            "customer": f"{dice.choice(('anna', 'bert', 'carla'))}{dice.randrange(10_000)}",
            "city": dice.choice(("Zurich", "Bern", "Basel")),
            "amount": dice.randrange(100_000) / 100,
        }
        for number in range(ROWS)
    ]
    values = [json.dumps(order).encode() for order in orders]
    return pa.RecordBatch.from_pydict({"key": keys, "value": values})
