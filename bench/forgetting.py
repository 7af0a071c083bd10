"""What forgetting costs: producers beside it, readers behind it, bytes written for bytes kept."""

import asyncio
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from random import Random

from bench import load, processes
from bench.figures import Figure, Plan, durable_broker
from semel.broker.broker import Broker as BrokerInMemory
from semel.broker.broker import Storage
from semel.broker.config import BrokerConfig
from semel.journal.file.device import Done
from semel.journal.file.memory import MemoryDevice
from semel.lane.producing import Incoming, Produce
from semel.lane.topics import CreateTopic
from semel.records import batch as record_batch
from semel.records.records import Record, encode_batch
from semel.testing import Broker
from semel.types import Buffer
from semel.verify.world.loop import SeededRandomness, SimulatedClock, simulate
from semel.wire.messages import create_topics, incremental_alter_configs, produce

TOPIC = "bench"
COMPACTED = "compacted"
MIB = 2**20
PRODUCE, CREATE_TOPICS, INCREMENTAL_ALTER_CONFIGS = 0, 19, 44
BROKER = 4
ROUNDS_MS = {"without": 86_400_000, "beside": 1000}
TURN_S_MIN = 4
"""As long as a round takes in which topics are compacted and then volumes made."""


# Beside producers


def produce_beside_settling(plan: Plan) -> Iterator[Figure]:
    """Rate and p99 of acks=all while volumes are made and topics compacted, over those without.

    In turns on one broker, whose rounds are a day or a second apart: what is written in one turn is
    there to be settled in the next.
    """
    rates: dict[str, list[float]] = {name: [] for name in ROUNDS_MS}
    latencies_ms: dict[str, list[float]] = {name: [] for name in ROUNDS_MS}
    metrics_port = processes.free_port()
    with durable_broker(
        f"--metrics=127.0.0.1:{metrics_port}",
        log_retention_check_interval_ms=ROUNDS_MS["without"],
        journal_segment_bytes=5 * MIB,
        journal_settle_bytes=MIB,
        journal_volume_bytes=32 * MIB,
    ) as broker:
        frames = cycle(_mixed_frames(broker.port, {TOPIC: {}, **FORGETFUL}))
        while processes.metric(metrics_port, "semel_journal_bytes_total") < 32 * MIB:
            _run(broker.port, frames, 0.2)
        for _ in range(2 * plan.repeats):
            for name, interval_ms in ROUNDS_MS.items():
                _alter_broker(broker.port, {"log.retention.check.interval.ms": str(interval_ms)})
                # A round that is under way comes to its end, or the first one begins.
                time.sleep(1)
                done = _run(broker.port, frames, max(TURN_S_MIN, 2 * plan.seconds))
                rates[name].append(done.replies / done.seconds)
                latencies_ms[name] += done.latencies_ms
        volumes = processes.metric(metrics_port, "semel_settling_volumes_total")
        passes = processes.metric(metrics_port, "semel_compaction_passes_total")
    rate = {name: statistics.median(each) for name, each in rates.items()}
    p99_ms = {name: statistics.quantiles(each, n=100)[98] for name, each in latencies_ms.items()}
    yield Figure(
        "produce beside settling and compaction: requests/s / without",
        rate["beside"] / rate["without"],
        ">= 0.8",
        {
            "without": rate["without"],
            "beside": rate["beside"],
            "volumes_made": volumes,
            "compaction_passes": passes,
        },
    )
    yield Figure(
        "produce beside settling and compaction: p99 / without",
        p99_ms["beside"] / p99_ms["without"],
        "<= 1.5",
        {
            "without_ms": p99_ms["without"],
            "beside_ms": p99_ms["beside"],
            "p50_without_ms": statistics.median(latencies_ms["without"]),
            "p50_beside_ms": statistics.median(latencies_ms["beside"]),
        },
    )


def _alter_broker(port: int, settings: dict[str, str]) -> None:
    entries = [
        incremental_alter_configs.AlterableConfig(name, 0, value)
        for name, value in settings.items()
    ]
    resource = incremental_alter_configs.AlterConfigsResource(BROKER, "1", entries)
    request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource], False)
    load.ask(port, load.request(INCREMENTAL_ALTER_CONFIGS, 0, request))


def _run(port: int, frames: Iterator[bytes], seconds: float) -> load.Load:
    return load.run(port, lambda: next(frames), connections=4, in_flight=2, seconds=seconds)


FORGETFUL = {
    "short": {"retention.bytes": str(MIB)},
    COMPACTED: {"cleanup.policy": "compact"},
}


def _mixed_frames(port: int, topics: Mapping[str, dict[str, str]]) -> list[bytes]:
    """Requests of 16 KB to all of these topics."""
    for name, configs in topics.items():
        _create(port, name, 20, configs)
    dice = Random(5)
    frames = []
    for partition in range(20):
        frames += [
            load.produce_request(name, partition, 16 * 1024, -1)
            for name in topics
            if name != COMPACTED
        ]
        records = [Record(b"%06d" % dice.randrange(10_000), b"x" * 140) for _ in range(100)]
        data = produce.PartitionProduceData(partition, encode_batch(records))
        topic = produce.TopicProduceData(COMPACTED, [data])
        request = produce.ProduceRequest(None, -1, 30_000, [topic])
        frames.append(load.request(PRODUCE, 9, request))
    return frames


def _create(port: int, name: str, partition_count: int, configs: dict[str, str]) -> None:
    entries = [create_topics.CreatableTopicConfig(key, value) for key, value in configs.items()]
    topic = create_topics.CreatableTopic(name, partition_count, 1, configs=entries)
    request = create_topics.CreateTopicsRequest([topic], 30_000, False)
    load.ask(port, load.request(CREATE_TOPICS, 5, request))


# At the limit

PARTS = 12
"""Of the load. The first third fills the folder; the second is compared to the last."""
PART_MB_PER_S = 40
"""Written in each part, by seconds of the plan."""
PACE_MB_PER_S = 20
"""Several rounds belong to each part: from one to the next the folder grows and shrinks again."""


def at_retention_limit(plan: Plan) -> Iterator[Figure]:
    """Folder, memory and p99 late in a long load over those early in it, when all that is written
    takes the place of something else.

    Beside what is kept as much is written as in an hour to a broker that keeps a GB.
    """
    stored_mb: list[float] = []
    resident_mb: list[float] = []
    p99_ms: list[float] = []
    metrics_port = processes.free_port()
    with durable_broker(
        f"--metrics=127.0.0.1:{metrics_port}",
        log_retention_check_interval_ms=1000,
        journal_segment_bytes=5 * MIB,
        journal_settle_bytes=4 * MIB,
        journal_volume_bytes=32 * MIB,
    ) as broker:
        frames = cycle(_mixed_frames(broker.port, FORGETFUL))
        written_mb = 0.0
        begun = time.perf_counter()
        for part in range(1, PARTS + 1):
            latencies_ms: list[float] = []
            looks_mb: list[float] = []
            while written_mb < part * PART_MB_PER_S * plan.seconds:
                latencies_ms += _run(broker.port, frames, 0.1).latencies_ms
                written_mb = processes.metric(metrics_port, "semel_journal_bytes_total") / 1e6
                looks_mb.append(processes.metric(metrics_port, "semel_folder_bytes") / 1e6)
                time.sleep(max(0, begun + written_mb / PACE_MB_PER_S - time.perf_counter()))
            p99_ms.append(statistics.quantiles(latencies_ms, n=100)[98])
            stored_mb.append(statistics.mean(looks_mb))
            resident_mb.append(processes.resident_mb(broker.process_id))
    for name, values, limit in (
        ("folder", stored_mb, 1.1),
        ("memory", resident_mb, 1.1),
        ("p99", p99_ms, 1.5),
    ):
        early, late = values[PARTS // 3 : PARTS * 2 // 3], values[PARTS * 2 // 3 :]
        yield Figure(
            f"a long load at the retention limit: {name} late / early",
            statistics.median(late) / statistics.median(early),
            f"<= {limit}",
            {
                "early": statistics.median(early),
                "late": statistics.median(late),
                "written_mb": written_mb,
            },
        )


# Behind it


BACKFILL_PARTITIONS = 1000
READ_PARTITIONS = 40


def cold_backfill(plan: Plan) -> Iterator[Figure]:
    """Bytes per second of a partition among 1,000, read from the disk: settled over unsettled."""
    byte_count = int(80 * MIB * plan.seconds)
    settings = {
        "journal.segment.bytes": 8 * MIB,
        "journal.settle.bytes": 2**40,
        "log.retention.ms": -1,
    }
    with tempfile.TemporaryDirectory(prefix="semel-bench-") as folder:
        with Broker(data=folder, settings=settings) as broker:
            _create(broker.port, TOPIC, BACKFILL_PARTITIONS, {})
            frames = [
                load.produce_request(TOPIC, first, 1024, 1, BACKFILL_PARTITIONS // 4)
                for first in range(0, BACKFILL_PARTITIONS, BACKFILL_PARTITIONS // 4)
            ]
            for _ in range(byte_count // 1024 // BACKFILL_PARTITIONS):
                for frame in frames:
                    load.ask(broker.port, frame)
            # The last of it lies in the open segment, before and after.
            size = int(0.8 * byte_count / BACKFILL_PARTITIONS)
            unsettled = _backfill_rates(broker.port, folder, size)
        settling = settings | {
            "journal.settle.bytes": MIB,
            "log.retention.check.interval.ms": 100,
        }
        port = processes.free_port()
        arguments = (f"--metrics=127.0.0.1:{port}",)
        with Broker(data=folder, settings=settling, arguments=arguments) as broker:
            while processes.metric(port, "semel_journal_stored_bytes") > 32 * MIB:
                time.sleep(0.2)
            settled = _backfill_rates(broker.port, folder, size)
            volumes = processes.metric(port, "semel_volumes")
    yield Figure(
        "cold backfill of a partition among 1,000: bytes/s settled / unsettled",
        statistics.median(settled) / statistics.median(unsettled),
        ">= 5",
        {
            "settled_mb_s": statistics.median(settled) / 1e6,
            "unsettled_mb_s": statistics.median(unsettled) / 1e6,
            "volumes": volumes,
            "mb_of_a_partition": size / 1e6,
        },
    )


def _backfill_rates(port: int, folder: str, size: int) -> list[float]:
    """Of some of the partitions, each read once, when the kernel has forgotten all of them."""
    os.sync()
    rates = []
    with socket.create_connection(("127.0.0.1", port)) as link:
        for partition in range(0, BACKFILL_PARTITIONS, BACKFILL_PARTITIONS // READ_PARTITIONS):
            _forget(folder)
            began = time.perf_counter()
            link.sendall(load.fetch_request(TOPIC, [partition], size))
            reply = load.receive_exactly(link)
            rates.append(len(reply) / (time.perf_counter() - began))
            assert len(reply) > 0.8 * size
    return rates


def _forget(folder: str) -> None:
    for file in Path(folder).iterdir():
        if file.suffix in (".segment", ".volume"):
            try:
                descriptor = os.open(file, os.O_RDONLY)
            except FileNotFoundError:
                continue  # It was settled meanwhile.
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


# Over a day


class CountingDevice(MemoryDevice):
    """Counts what is written to it."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.bytes_written = 0

    def write(self, name: str, offset: int, parts: Sequence[Buffer]) -> None:
        self.bytes_written += sum(map(len, parts))
        super().write(name, offset, parts)

    def submit_write(self, name: str, offset: int, parts: list[Buffer], on_done: Done) -> None:
        self.bytes_written += sum(map(len, parts))
        super().submit_write(name, offset, parts, on_done)

    @property
    def bytes_stored(self) -> int:
        return sum(self.size(name) for name in self.names())


HOURS = 24
KEPT_HOURS_MAX = 8
KINDS: dict[str, tuple[dict[str, str], float]] = {
    "hour": ({"retention.ms": str(3_600_000)}, 0.5),
    "hours": ({"retention.ms": str(3 * 3_600_000)}, 0.25),
    "shift": ({"retention.ms": str(KEPT_HOURS_MAX * 3_600_000)}, 0.2),
    "compacted": ({"cleanup.policy": "compact"}, 0.05),
}
"""Settings, and the share of the bytes that are produced."""


def simulated_day(plan: Plan) -> Iterator[Figure]:
    """Bytes written per byte produced over a day of mixed retention, and what the folder takes.

    All sizes are a 43rd of the defaults: segments of 1.5 MB, settled from 24 MB on. So the day has
    as many volumes as one of a few GB has.
    """
    byte_count = int(100e6 * plan.seconds)
    day = _Day(byte_count)
    simulate(1, day.live, budget_s=2 * HOURS * 3600)
    steady = day.stored[KEPT_HOURS_MAX + 1 :]
    half = len(steady) // 2
    yield Figure(
        "bytes written to disk per byte produced, a simulated day of mixed retention",
        day.device.bytes_written / day.bytes_produced,
        "<= 2.2",
        {
            "produced_mb": day.bytes_produced / 1e6,
            "written_mb": day.device.bytes_written / 1e6,
            "journal_mb": day.journal_bytes / 1e6,
            "settled_mb": day.settled_bytes / 1e6,
            "compacted_mb": day.compacted_bytes / 1e6,
            "volumes_made": day.volumes_made,
        },
    )
    yield Figure(
        "folder at its retention limit: bytes in the last hours / in those before",
        statistics.mean(steady[half:]) / statistics.mean(steady[:half]),
        "<= 1.1",
        {"most_mb_before": max(steady[:half]) / 1e6, "most_mb_last": max(steady[half:]) / 1e6},
    )


class _Day:
    def __init__(self, byte_count: int) -> None:
        self._byte_count = byte_count
        self.device = CountingDevice(Random(1))
        self.bytes_produced = 0
        self.stored: list[int] = []
        """Bytes that the folder takes, hour by hour."""
        self.journal_bytes = self.settled_bytes = self.compacted_bytes = self.volumes_made = 0

    async def live(self) -> None:
        loop = asyncio.get_running_loop()
        config = BrokerConfig(
            message_max_bytes=100_000,
            journal_segment_bytes=1_500_000,
            journal_settle_bytes=24_000_000,
            journal_volume_bytes=24_000_000,
        )
        clock = SimulatedClock(loop)
        storage = Storage("simulated", lambda: (2**41, 2**40))
        broker = BrokerInMemory(config, [self.device], storage, clock, SeededRandomness(1))
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(self._serve(broker))
            await asyncio.sleep(1)
            await self._produce(broker, clock)
            lane, (journal,) = broker.lanes.controller, broker.journals.values()
            self.journal_bytes = journal.bytes_appended
            self.settled_bytes = lane.settling.bytes_settled
            self.compacted_bytes = lane.compacting.bytes_written
            self.volumes_made = lane.settling.volumes_made
            serving.cancel()

    async def _serve(self, broker: BrokerInMemory) -> None:
        async with asyncio.TaskGroup() as tasks:
            await broker.start(tasks)

    async def _produce(self, broker: BrokerInMemory, clock: SimulatedClock) -> None:
        dice = Random(2)
        lane = broker.lanes.controller
        names = {name: [f"{name}-{number}" for number in range(5)] for name in KINDS}
        for kind, (configs, _) in KINDS.items():
            for name in names[kind]:
                lane.submit(CreateTopic(name, 1, configs))
        size = 10_000
        pause_s = HOURS * 3600 / (self._byte_count / size)
        passed_s = 0.0
        shares = [share for _, share in KINDS.values()]
        while passed_s < HOURS * 3600:
            (kind,) = dice.choices(list(KINDS), shares)
            topic = dice.choice(names[kind])
            records = [
                Record(b"%05d" % dice.randrange(2_000), bytes(940), clock.wall_ms())
                for _ in range(size // 1000)
            ]
            batch = memoryview(encode_batch(records))
            header = record_batch.read(batch)
            fingerprint = record_batch.fingerprint(header, batch)
            partition = lane.view.partition(topic, 0)
            lane.submit(Produce([Incoming(partition, header, fingerprint, batch)]))
            self.bytes_produced += len(batch)
            await asyncio.sleep(pause_s)
            passed_s += pause_s
            if passed_s // 3600 > len(self.stored):
                self.stored.append(self.device.bytes_stored)


# With many batches


def many_batches(plan: Plan) -> Iterator[Figure]:
    """Start-up, memory and the last checkpoint with 100 times as many batches: 10^7 over 10^5, and
    a hundredth of each for a short run."""
    most = 10_000_000 if plan.repeats > 1 else 100_000
    seconds, megabytes, checkpoint_s = {}, {}, {}
    settings = {"log.retention.ms": -1, "journal.segment.bytes": 8 * MIB}
    for count in (most // 100, most):
        with tempfile.TemporaryDirectory(prefix="semel-bench-") as folder:
            with Broker(data=folder, settings=settings) as broker:
                _create(broker.port, TOPIC, 500, {})
                frame = load.produce_request(TOPIC, 0, 100, 1, 500)
                for _ in range(count // 500):
                    load.ask(broker.port, frame)
            begun, resident, stopped = [], [], []
            for _ in range(3):
                started = time.perf_counter()
                with Broker(data=folder, settings=settings) as broker:
                    load.ask(broker.port, load.produce_request(TOPIC, 0, 100, -1))
                    begun.append(time.perf_counter() - started)
                    resident.append(processes.resident_mb(broker.process_id))
                    started = time.perf_counter()
                    broker.stop()
                    stopped.append(time.perf_counter() - started)
            seconds[count] = statistics.median(begun)
            megabytes[count] = statistics.median(resident)
            checkpoint_s[count] = statistics.median(stopped)
    for name, values in {
        "start-up": seconds,
        "memory after a start": megabytes,
        "a stop with its checkpoint": checkpoint_s,
    }.items():
        yield Figure(
            f"{name}: {most:,} batches / {most // 100:,}",
            values[most] / values[most // 100],
            "<= 1.5",
            {"most": values[most], "least": values[most // 100]},
        )
