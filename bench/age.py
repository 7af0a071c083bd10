"""What must not grow with the age of the data or the size of the state: pauses, starts, reads."""

import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

from bench import load, processes
from bench.figures import Figure, Plan, durable_broker
from semel.records.records import Record, encode_batch
from semel.testing import Broker
from semel.wire.messages import api_versions, produce

TOPIC = "bench"
SEGMENT_BYTES = 1_500_000
OLD_BATCH_BYTES = 16 * 1024
"""The smallest there may be, so that segments roll often."""
PRODUCE, API_VERSIONS = 0, 18
NOW_MS = 1_700_000_000_000
RUNS = 5


def roll_pause(plan: Plan) -> Iterator[Figure]:
    """The longest wait for an answer that needs no disk, while segments roll under load."""
    small_ms, large_ms = [], []
    for _ in range(RUNS):
        small_ms.append(_longest_ms(plan, partitions=10, producers=10))
        large_ms.append(_longest_ms(plan, partitions=10_000, producers=100_000))
    small, large = statistics.median(small_ms), statistics.median(large_ms)
    yield Figure(
        "longest pause while segments roll, 10,000 partitions and 100,000 producers, "
        "over the larger of 20 ms and twice that of 10 and 10",
        large / max(20, 2 * small),
        "<= 1",
        {"small_ms": small, "large_ms": large},
    )


def _longest_ms(plan: Plan, *, partitions: int, producers: int) -> float:
    with durable_broker(
        num_partitions=partitions, journal_segment_bytes=SEGMENT_BYTES, message_max_bytes=100_000
    ) as broker:
        load.wait_for_topic(broker.port, TOPIC)
        _introduce(broker.port, partitions, producers)
        frame = load.produce_request(TOPIC, 0, 16 * 1024, acks=1)
        with _beside(_produce_on, broker.port, frame):
            return max(_answer_times_ms(broker.port, plan.seconds))


def _introduce(port: int, partitions: int, producers: int) -> None:
    """One batch of each producer, spread over the partitions."""
    for start in range(0, producers, 1000):
        data = [
            produce.PartitionProduceData(
                producer_id % partitions,
                encode_batch(
                    [Record(None, b"x", NOW_MS)],
                    producer_id=1_000_000 + producer_id,
                    producer_epoch=0,
                    base_sequence=0,
                ),
            )
            for producer_id in range(start, min(start + 1000, producers))
        ]
        topics = [produce.TopicProduceData(TOPIC, data)]
        load.ask(port, load.request(PRODUCE, 9, produce.ProduceRequest(None, 1, 30_000, topics)))


def _answer_times_ms(port: int, seconds: float) -> list[float]:
    frame = load.request(API_VERSIONS, 0, api_versions.ApiVersionsRequest())
    return _latencies_ms(port, frame, seconds)


def _latencies_ms(port: int, frame: bytes, seconds: float) -> list[float]:
    return load.run(port, lambda: frame, connections=1, in_flight=1, seconds=seconds).latencies_ms


def cold_reads(plan: Plan) -> Iterator[Figure]:
    """p99 of acks=all beside a client that reads old data from the disk, over that without."""
    with (
        tempfile.TemporaryDirectory(prefix="semel-bench-") as folder,
        Broker(data=folder) as broker,
    ):
        load.wait_for_topic(broker.port, TOPIC)
        load.wait_for_topic(broker.port, "old")
        old = load.produce_request("old", 0, OLD_BATCH_BYTES, acks=1)
        for _ in range(3):
            load.run(broker.port, lambda: old, connections=2, in_flight=5, seconds=plan.seconds)
        frame = load.produce_request(TOPIC, 0, 1024, acks=-1)
        alone, beside, beside_warm, beside_files = [], [], [], []
        # By turns, and the median of each: a hiccup of the machine belongs to neither.
        for _ in range(RUNS):
            alone.append(_p99_ms(broker.port, frame, plan))
            with _beside(_read_old, broker.port, folder, True):
                beside.append(_p99_ms(broker.port, frame, plan))
            with _beside(_read_old, broker.port, folder, False):
                beside_warm.append(_p99_ms(broker.port, frame, plan))
            with _beside(_read_files, broker.port, folder):
                beside_files.append(_p99_ms(broker.port, frame, plan))
    alone_ms, beside_ms = statistics.median(alone), statistics.median(beside)
    yield Figure(
        "acks=all beside a cold reader: p99 / p99 without",
        beside_ms / alone_ms,
        "<= 1.5",
        {
            "alone_ms": alone_ms,
            "beside_ms": beside_ms,
            # The same fetches of data that is in memory: what serving them takes without the disk.
            "beside_warm_ms": statistics.median(beside_warm),
            # What the disk alone makes of it: syncs wait for the reads of a process that has
            # nothing to do with the broker.
            "beside_reads_of_files_ms": statistics.median(beside_files),
        },
    )


def _p99_ms(port: int, frame: bytes, plan: Plan) -> float:
    return statistics.quantiles(_latencies_ms(port, frame, plan.seconds), n=100)[98]


def start_with_segments(plan: Plan) -> Iterator[Figure]:
    """From starting the process to its first acknowledged record: 1,000 segments over 10."""
    seconds = {}
    settings = {"journal.segment.bytes": SEGMENT_BYTES, "message.max.bytes": 100_000}
    for count in (10, 1000):
        with tempfile.TemporaryDirectory(prefix="semel-bench-") as folder:
            with Broker(data=folder, settings=settings) as broker:
                load.wait_for_topic(broker.port, TOPIC)
                large = load.produce_request(TOPIC, 0, 90_000, acks=1)
                while len(list(Path(folder).glob("*.index"))) < count:
                    _latencies_ms(broker.port, large, 0.2)
            seconds[count] = statistics.median(_start_s(folder, settings) for _ in range(RUNS))
    yield Figure(
        "start-up with 1,000 segments / with 10",
        seconds[1000] / seconds[10],
        "<= 1.5",
        {"s_10": seconds[10], "s_1000": seconds[1000]},
    )


def _start_s(folder: str, settings: dict[str, int]) -> float:
    frame = load.produce_request(TOPIC, 0, 1024, acks=-1)
    started = time.perf_counter()
    with Broker(data=folder, settings=settings) as broker:
        load.ask(broker.port, frame)
        return time.perf_counter() - started


def tail_fetch(plan: Plan) -> Iterator[Figure]:
    """Reads of a file for each fetch of the record that was just produced."""
    with durable_broker() as broker:
        load.wait_for_topic(broker.port, TOPIC)
        one = load.produce_request(TOPIC, 0, 1024, acks=-1)
        # The first request of a kind imports its handler, which is a file too.
        for frame in (one, load.fetch_request(TOPIC, [0], 1 << 20)):
            load.ask(broker.port, frame)
        fetches = 0
        with socket.create_connection(("127.0.0.1", broker.port)) as link:
            before = processes.file_reads(broker.process_id)
            ends = time.perf_counter() + plan.seconds
            while time.perf_counter() < ends:
                fetches += 1
                for frame in (one, load.fetch_request(TOPIC, [0], 1 << 20, offset=fetches)):
                    link.sendall(frame)
                    load.receive_exactly(link)
            reads = processes.file_reads(broker.process_id) - before
    yield Figure("reads of a file per fetch at the tail", reads / fetches, "<= 0", {})


@contextmanager
def _beside(work: Callable[..., None], *arguments: object) -> Iterator[None]:
    """Runs in a process of its own until the block ends."""
    context = multiprocessing.get_context("spawn")
    begun, enough = context.Event(), context.Event()
    process = context.Process(target=work, args=(begun, enough, *arguments))
    process.start()
    try:
        begun.wait()
        yield
    finally:
        enough.set()
        process.join()


def _produce_on(begun: Event, enough: Event, port: int, frame: bytes) -> None:
    begun.set()
    while not enough.is_set():
        load.run(port, lambda: frame, connections=1, in_flight=5, seconds=0.2)


def _read_files(begun: Event, enough: Event, port: int, folder: str) -> None:
    """The old data straight from the disk, as much at once as a fetch asks for."""
    begun.set()
    while not enough.is_set():
        for file in sorted(Path(folder).glob("*.segment"))[:-1]:
            descriptor = os.open(file, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            offset = 0
            while not enough.is_set() and os.pread(descriptor, 1 << 20, offset):
                offset += 1 << 20
            os.close(descriptor)


def _read_old(begun: Event, enough: Event, port: int, folder: str, is_cold: bool) -> None:
    """Fetch after fetch through the old data; if cold, the kernel forgets it before each pass."""
    with socket.create_connection(("127.0.0.1", port)) as link:
        begun.set()
        offset = 0
        while not enough.is_set():
            if is_cold and not offset:
                _forget(folder)
            link.sendall(load.fetch_request("old", [0], 1 << 20, offset=offset))
            batches = len(load.receive_exactly(link)) // OLD_BATCH_BYTES
            offset = offset + batches if batches else 0


def _forget(folder: str) -> None:
    # Not the open one: who appends to half a page that was forgotten waits for the disk, and no
    # reader of old data makes the kernel forget what was written last.
    for file in sorted(Path(folder).glob("*.segment"))[:-1]:
        descriptor = os.open(file, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
