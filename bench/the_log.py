"""The measurements of the log: ratios within one run and sizes, with the limits they must keep."""

import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator

from bench import load, processes
from bench.figures import Figure, Plan, durable_broker
from semel.testing import Broker

TOPIC = "bench"
KB = 1024
SYNCS = "semel_journal_syncs_total"


def produce_cost(plan: Plan) -> Iterator[Figure]:
    """CPU of the server per acks=1 request, over that of the bare server, alternating."""
    for size, limit in ((16 * KB, 2), (1 * KB, 5)):
        frame = load.produce_request(TOPIC, 0, size, acks=1)
        bare_us, semel_us = [], []
        with durable_broker() as broker, processes.bare_server("produce") as (bare_port, bare_id):
            load.wait_for_topic(broker.port, TOPIC)
            for _ in range(plan.repeats):
                bare_us.append(_cpu_us(bare_port, bare_id, frame, plan))
                semel_us.append(_cpu_us(broker.port, broker.process_id, frame, plan))
        bare, semel = statistics.median(bare_us), statistics.median(semel_us)
        yield Figure(
            f"produce acks=1, {size // KB} KB: CPU per request / bare server",
            semel / bare,
            f"<= {limit}",
            {"bare_us": bare, "semel_us": semel},
        )


def _cpu_us(port: int, process_id: int, frame: bytes, plan: Plan) -> float:
    before = processes.cpu_seconds(process_id)
    done = load.run(port, lambda: frame, connections=4, in_flight=5, seconds=plan.seconds)
    return (processes.cpu_seconds(process_id) - before) / done.replies * 1e6


def group_commit(plan: Plan) -> Iterator[Figure]:
    """64 producers with acks=all, one request each: requests per sync; what grouping is worth."""
    frame = load.produce_request(TOPIC, 0, KB, acks=-1)
    rates = {}
    per_sync = 0.0
    for grouped in (False, True):
        port = processes.free_port()
        metrics = f"--metrics=127.0.0.1:{port}"
        with durable_broker(metrics, journal_group_commit=str(grouped).lower()) as broker:
            load.wait_for_topic(broker.port, TOPIC)
            before = processes.metric(port, SYNCS)
            done = load.run(
                broker.port, lambda: frame, connections=64, in_flight=1, seconds=plan.seconds * 2
            )
            syncs = processes.metric(port, SYNCS) - before
            rates[grouped] = done.replies / done.seconds
            per_sync = done.replies / syncs
    yield Figure("acks=all, 64 producers: requests per sync", per_sync, ">= 10", {})
    yield Figure(
        "acks=all, 64 producers: rate / rate without group commit",
        rates[True] / rates[False],
        ">= 4",
        {"grouped_per_s": rates[True], "alone_per_s": rates[False]},
    )


def fetch_rate(plan: Plan) -> Iterator[Figure]:
    """Bytes per second of 1 MB fetches from 1 and from 100 partitions, over a bare server's."""
    wanted = 1 << 20
    with durable_broker(num_partitions=100) as broker, processes.bare_server("fetch") as (port, _):
        load.wait_for_topic(broker.port, TOPIC)
        # Written in turn, so that in the journal every partition's batches lie among the others'.
        turn = itertools.cycle(
            load.produce_request(TOPIC, index, 10_000, acks=1) for index in range(100)
        )
        load.run(broker.port, lambda: next(turn), connections=1, in_flight=5, seconds=plan.seconds)
        alone = load.produce_request("alone", 0, 16 * KB, acks=1)
        load.wait_for_topic(broker.port, "alone")
        load.run(broker.port, lambda: alone, connections=1, in_flight=5, seconds=1)
        frames = {
            1: load.fetch_request("alone", [0], wanted),
            100: load.fetch_request(TOPIC, range(100), wanted),
        }
        bare_frame = load.fetch_request(TOPIC, [0], wanted)
        rates: dict[int, list[float]] = {0: [], 1: [], 100: []}
        for _ in range(plan.repeats):
            rates[0].append(_mb_per_s(port, bare_frame, plan))
            for count, frame in frames.items():
                rates[count].append(_mb_per_s(broker.port, frame, plan))
    bare = statistics.median(rates[0])
    for count in frames:
        semel = statistics.median(rates[count])
        yield Figure(
            f"fetch of 1 MB from {count} partition{'s' * (count > 1)}: bytes/s / bare server",
            semel / bare,
            ">= 0.5",
            {"bare_mb_per_s": bare, "semel_mb_per_s": semel},
        )


def _mb_per_s(port: int, frame: bytes, plan: Plan) -> float:
    done = load.run(port, lambda: frame, connections=1, in_flight=1, seconds=plan.seconds)
    return done.reply_bytes / done.seconds / 1e6


def many_partitions(plan: Plan) -> Iterator[Figure]:
    """Median latency of acks=all to 1,000 partitions in turn, over that to one."""
    with durable_broker(num_partitions=1000) as broker:
        load.wait_for_topic(broker.port, TOPIC)
        frames = [load.produce_request(TOPIC, index, KB, acks=-1) for index in range(1000)]
        one, thousand = [], []
        for _ in range(plan.repeats):
            one += _latencies(broker.port, itertools.repeat(frames[0]), plan)
            thousand += _latencies(broker.port, itertools.cycle(frames), plan)
    one_ms, thousand_ms = statistics.median(one), statistics.median(thousand)
    yield Figure(
        "acks=all to 1,000 partitions in turn: p50 / p50 of one partition",
        thousand_ms / one_ms,
        "<= 2",
        {"one_ms": one_ms, "thousand_ms": thousand_ms},
    )


def _latencies(port: int, frames: Iterator[bytes], plan: Plan) -> list[float]:
    return load.run(
        port, lambda: next(frames), connections=1, in_flight=1, seconds=plan.seconds
    ).latencies_ms


def start_up(plan: Plan) -> Iterator[Figure]:
    """Seconds from starting the process on an empty folder to its first acknowledged record."""
    times = []
    frame = load.produce_request(TOPIC, 0, KB, acks=-1)
    for _ in range(max(3, plan.repeats)):
        with tempfile.TemporaryDirectory(prefix="semel-bench-") as folder:
            started = time.perf_counter()
            with Broker(data=folder) as broker:
                load.wait_for_topic(broker.port, TOPIC)
                load.ask(broker.port, frame)
                times.append(time.perf_counter() - started)
    yield Figure(
        "process start to first acknowledged record, s", statistics.median(times), "<= 0.5", {}
    )


def memory(plan: Plan) -> Iterator[Figure]:
    """Resident memory when idle, and after a million batches were stored under load."""
    batches = 1_000_000
    with durable_broker(num_partitions=100) as broker:
        load.wait_for_topic(broker.port, TOPIC)
        yield Figure(
            "resident memory, idle, MB", processes.resident_mb(broker.process_id), "<= 80", {}
        )
        turn = itertools.cycle(
            load.produce_request(TOPIC, index, 200, acks=1, partition_count=10)
            for index in range(0, 100, 10)
        )
        stored = 0
        peak_mb = 0.0
        while stored < batches:
            done = load.run(
                broker.port, lambda: next(turn), connections=8, in_flight=5, seconds=plan.seconds
            )
            stored += done.replies * 10
            peak_mb = max(peak_mb, processes.resident_mb(broker.process_id))
        yield Figure(
            "resident memory under load with a million batches stored, MB",
            peak_mb,
            "<= 300",
            {"batches": stored},
        )
