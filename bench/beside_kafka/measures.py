"""The measurements: each server in turn, all of them warm, and the order of turns rotated."""

import itertools
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import NamedTuple

from bench import load, processes
from bench.beside_kafka.clients import Answer, Client
from bench.beside_kafka.results import Row
from bench.beside_kafka.servers import MAKERS, Server
from semel import Admin
from semel.wire.apis import BY_KEY

PARTITIONS = 4
RECORD_SIZES = (100, 1024, 10_240)
PRODUCERS = (1, 4)
READ_SIZES = (100, 1024)
SMALL_SIZES = (100, 1024)
TRANSACTION_PARTITIONS = (1, 8, 64)
TRANSACTION_PRODUCERS = (1, 16, 64)
TRANSACTION_RECORD_SIZE = 100
START_TOPIC = "start"
STEADY = 1.05
"""Warm is who in two rounds was not faster by this factor than ever before."""
_PRODUCE, _PRODUCE_VERSION = 0, 9
_WARM_READS = 100_000
_FIRST_RECORD_S_MAX = 120
_PAUSE_S = 0.002


class Plan(NamedTuple):
    seconds: float
    """Of a turn."""
    turns: int
    """That count; another one before them, half as long, does not."""
    turn_bytes_max: int
    read_bytes: int
    restart_bytes: int
    starts: int
    """Of each kind that count."""
    warm_rounds_min: int
    warm_rounds_max: int


FULL = Plan(0.5, 3, 125_000_000, 60_000_000, 128_000_000, 2, 3, 5)
QUICK = Plan(0.3, 1, 30_000_000, 10_000_000, 32_000_000, 1, 1, 1)

Turn = Callable[[str, Server], Mapping[str, float | tuple[float, ...]]]
"""One turn of one server: what was found, or `ms`, of which percentiles are taken."""


class Scene:
    """Servers that run side by side, and the clients that drive one of them at a time."""

    def __init__(
        self,
        servers: Mapping[str, Server],
        clients: list[Client],
        plan: Plan,
        rows: list[Row],
    ) -> None:
        self.servers = servers
        self.clients = clients
        self.plan = plan
        self.rows = rows
        self.seconds = plan.seconds
        """How long the turns are that come now."""
        self._numbers = itertools.count()

    def in_turns(self, measure: str, client: str, settings: Mapping[str, int], turn: Turn) -> None:
        found: dict[str, dict[str, list[float]]] = {name: {} for name in self.servers}
        ms: dict[str, list[float]] = {name: [] for name in self.servers}
        names = list(self.servers)
        for number in range(self.plan.turns + 1):
            self.seconds = self.plan.seconds * (1.0 if number else 0.5)
            first = number % len(names)
            for name in names[first:] + names[:first]:
                # What another one has left to the kernel is not written in the turn of this one.
                os.sync()
                values = turn(name, self.servers[name])
                if number == 0:
                    continue
                for key, value in values.items():
                    if isinstance(value, tuple):
                        ms[name] += value
                    else:
                        found[name].setdefault(key, []).append(value)
        for name in names:
            self.rows.append(
                Row(measure, name, client, settings, {**found[name], **_percentiles(ms[name])})
            )

    @contextmanager
    def topic(self, partitions: int = PARTITIONS) -> Iterator[str]:
        """A new one on all servers, which is deleted again: the disk has to hold all of it."""
        topic = f"topic-{next(self._numbers)}"
        for server in self.servers.values():
            create(server, topic, partitions)
        yield topic
        for server in self.servers.values():
            with Admin(server.bootstrap_servers) as admin:
                admin.delete_topics(topic)

    def drive(
        self, server: Server, client: Client, call: str, topic: str, **words: object
    ) -> tuple[Answer, float]:
        """What the client found, and the server's processor time."""
        return drive(server, client, call, topic, seconds=self.seconds, **words)

    def number(self) -> int:
        return next(self._numbers)


def create(server: Server, topic: str, partitions: int) -> None:
    with Admin(server.bootstrap_servers) as admin:
        admin.create_topics(topic, partitions=partitions)


def drive(
    server: Server, client: Client, call: str, topic: str, **words: object
) -> tuple[Answer, float]:
    before: list[float] = []
    answer = client.measure(
        call,
        when_ready=lambda: before.append(processes.cpu_seconds(server.process_id)),
        servers=server.bootstrap_servers,
        topic=topic,
        **words,  # type: ignore[arg-type]
    )
    return answer, processes.cpu_seconds(server.process_id) - before[0]


def stored(server: Server, topic: str) -> int:
    with Admin(server.bootstrap_servers) as admin:
        return sum(admin.end_offsets(topic).values())


def warm_up(scene: Scene) -> dict[str, int]:
    """All paths that are measured, until nobody gets faster; how many rounds each took."""
    rounds = dict.fromkeys(scene.servers, 0)
    best: dict[str, float] = {}
    steady = dict.fromkeys(scene.servers, 0)
    plan = scene.plan
    scene.seconds = plan.seconds
    with scene.topic() as topic:
        for number in range(plan.warm_rounds_max):
            for name, server in scene.servers.items():
                if number >= plan.warm_rounds_min and steady[name] >= 2:
                    continue
                rate = min(_warm_round(scene, server, client, topic) for client in scene.clients)
                is_faster = rate > best.get(name, 0.0) * STEADY
                steady[name] = 0 if is_faster else steady[name] + 1
                best[name] = max(rate, best.get(name, 0.0))
                rounds[name] += 1
    return rounds


def _warm_round(scene: Scene, server: Server, client: Client, topic: str) -> float:
    records_max = scene.plan.read_bytes // 100
    one = {"record_size": 100, "producers": 1}
    produced, _ = scene.drive(server, client, "produce", topic, **one, records_max=records_max)
    scene.drive(server, client, "send_one", topic, **one)
    name = f"warm-{scene.number()}-"
    scene.drive(server, client, "transactions", topic, **one, partitions=PARTITIONS, name=name)
    records = min(stored(server, topic), _WARM_READS) // 2
    scene.drive(server, client, "consume", topic, partitions=PARTITIONS, records=records)
    return produced.records / produced.seconds


def produce_rate(scene: Scene) -> None:
    """Records per second until the last is acknowledged, acks=all."""
    for client, size, producers in itertools.product(scene.clients, RECORD_SIZES, PRODUCERS):
        words = {"record_size": size, "producers": producers}
        with scene.topic() as topic:
            expected = dict.fromkeys(scene.servers, 0)

            def turn(
                name: str,
                server: Server,
                client: Client = client,
                words: Mapping[str, int] = words,
                topic: str = topic,
                expected: dict[str, int] = expected,
            ) -> Mapping[str, float]:
                records_max = scene.plan.turn_bytes_max // words["record_size"]
                answer, cpu_s = scene.drive(
                    server, client, "produce", topic, **words, records_max=records_max
                )
                # Each producer has sent one before the clock was started.
                expected[name] += answer.records + words["producers"]
                assert stored(server, topic) == expected[name], f"{name} has not stored all"
                return _rates(answer, cpu_s)

            scene.in_turns("produce_rate", client.name, words, turn)


def consume_rate(scene: Scene) -> None:
    """Records per second from the beginning of a topic to its end, by one consumer."""
    for size in READ_SIZES:
        with scene.topic() as topic:
            count = scene.plan.read_bytes // size
            records = {}
            for name, server in scene.servers.items():
                fill(server, scene.clients[0], topic, count, size)
                records[name] = stored(server, topic)
            for client in scene.clients:

                def turn(
                    name: str,
                    server: Server,
                    client: Client = client,
                    topic: str = topic,
                    records: Mapping[str, int] = records,
                ) -> Mapping[str, float]:
                    answer, cpu_s = scene.drive(
                        server, client, "consume", topic,
                        partitions=PARTITIONS, records=records[name],
                    )  # fmt: skip
                    assert answer.records == records[name], f"{name} gave {answer.records}"
                    return _rates(answer, cpu_s)

                scene.in_turns("consume_rate", client.name, {"record_size": size}, turn)


def fill(server: Server, client: Client, topic: str, count: int, size: int) -> None:
    drive(
        server, client, "produce", topic,
        record_size=size, records_max=count, producers=1, seconds=60,
    )  # fmt: skip


def one_record(scene: Scene) -> None:
    """From send to acknowledgement, acks=all, one after the other."""
    for client, size in itertools.product(scene.clients, SMALL_SIZES):
        with scene.topic() as topic:

            def turn(
                name: str,
                server: Server,
                client: Client = client,
                size: int = size,
                topic: str = topic,
            ) -> Mapping[str, float | tuple[float, ...]]:
                answer, cpu_s = scene.drive(server, client, "send_one", topic, record_size=size)
                return {"ms": answer.ms, "server_cpu_us": _per_one_us(cpu_s, len(answer.ms))}

            scene.in_turns("one_record", client.name, {"record_size": size}, turn)


def transaction_width(scene: Scene) -> None:
    """A transaction with a record for each of several partitions, one after the other."""
    for client, partitions in itertools.product(scene.clients, TRANSACTION_PARTITIONS):
        _transactions(scene, "transaction_width", client, partitions, 1)


def transactions_at_once(scene: Scene) -> None:
    """Several producers, each with transactions of one record to one partition."""
    for client, producers in itertools.product(scene.clients, TRANSACTION_PRODUCERS):
        _transactions(scene, "transactions_at_once", client, 1, producers)


def _transactions(
    scene: Scene, measure: str, client: Client, partitions: int, producers: int
) -> None:
    with scene.topic(partitions) as topic:
        # Ids are used again in the next turn, as those of programs are.
        ids = f"{topic}-"

        def turn(name: str, server: Server) -> Mapping[str, float | tuple[float, ...]]:
            answer, cpu_s = scene.drive(
                server, client, "transactions", topic,
                record_size=TRANSACTION_RECORD_SIZE, partitions=partitions, producers=producers,
                name=ids,
            )  # fmt: skip
            commits = len(answer.ms)
            return {
                "commits_per_s": commits / answer.seconds,
                "ms": answer.ms,
                "server_cpu_us": _per_one_us(cpu_s, commits),
            }

        settings = {"partitions": partitions, "producers": producers}
        scene.in_turns(measure, client.name, settings, turn)


def start_up(client: Client, subjects: list[str], plan: Plan) -> Iterator[Row]:
    """Seconds from starting the process to its first acknowledged record: in a new folder, and in
    one with data whose server was ended by `kill -9`."""
    found: dict[str, dict[str, list[float]]] = {
        name: {"new_s": [], "killed_s": []} for name in subjects
    }
    for number, name in itertools.product(range(plan.starts + 1), subjects):
        with closing(MAKERS[name]()) as server:
            server.prepare()
            taken_s = _first_record_s(server, 0)
            if number == 0:
                # What is read from the disk, or compiled and kept, at the first time of all.
                continue
            found[name]["new_s"].append(taken_s)
            count = plan.restart_bytes // 1024
            fill(server, client, START_TOPIC, count, 1024)
            filled = stored(server, START_TOPIC)
            server.kill()
            os.sync()
            found[name]["killed_s"].append(_first_record_s(server, filled))
    for name in subjects:
        yield Row("start_up", name, "", {}, found[name])


def _first_record_s(server: Server, offset: int) -> float:
    os.sync()
    started = time.perf_counter()
    server.launch()
    await_first_record(server, offset)
    return time.perf_counter() - started


def await_first_record(server: Server, offset: int) -> None:
    """Asserts that nothing has been lost: the record has the offset behind all the others."""
    ends = time.perf_counter() + _FIRST_RECORD_S_MAX
    while time.perf_counter() < ends:
        try:
            if offset == 0:
                load.wait_for_topic(server.port, START_TOPIC)
            given = _stored_at(server.port)
        except OSError:
            given = None
        if given is not None:
            assert given == offset, f"the record got offset {given} in place of {offset}"
            return
        time.sleep(_PAUSE_S)
    raise RuntimeError(f"no record was acknowledged in {_FIRST_RECORD_S_MAX} s")


def _stored_at(port: int) -> int | None:
    """The offset of a record that is sent; None if it was refused."""
    reply = load.ask(port, load.produce_request(START_TOPIC, 0, 1024, acks=-1))
    answer, _ = BY_KEY[_PRODUCE].decode_response(reply, 5, _PRODUCE_VERSION)
    (partition,) = answer.responses[0].partition_responses
    return partition.base_offset if partition.error_code == 0 else None


def resident_mb(scene: Scene) -> dict[str, float]:
    return {
        name: processes.resident_mb(server.process_id) for name, server in scene.servers.items()
    }


def memory(scene: Scene, idle_mb: Mapping[str, float]) -> None:
    """Resident memory before any load, and after all of it; and what waiting for work costs."""
    before = {
        name: processes.cpu_seconds(server.process_id) for name, server in scene.servers.items()
    }
    started = time.perf_counter()
    time.sleep(scene.plan.seconds * 4)
    waited_s = time.perf_counter() - started
    for name, server in scene.servers.items():
        cpu_s = processes.cpu_seconds(server.process_id) - before[name]
        values = {
            "idle_mb": [idle_mb[name]],
            "used_mb": [processes.resident_mb(server.process_id)],
            "idle_cpu_percent": [100 * cpu_s / waited_s],
        }
        scene.rows.append(Row("memory", name, "", {}, values))


def _rates(answer: Answer, cpu_s: float) -> dict[str, float]:
    return {
        "records_per_s": answer.records / answer.seconds,
        "server_cpu_us": _per_one_us(cpu_s, answer.records),
        "client_cpu_us": _per_one_us(answer.cpu_s, answer.records),
    }


def _per_one_us(seconds: float, count: int) -> float:
    return 1e6 * seconds / count


def _percentiles(ms: list[float]) -> dict[str, list[float]]:
    if not ms:
        return {}
    ordered = sorted(ms)
    p99 = ordered[math.ceil(0.99 * len(ordered)) - 1]
    return {"p50_ms": [statistics.median(ms)], "p99_ms": [p99], "answers": [len(ms)]}


IN_SCENE: Mapping[str, Callable[[Scene], None]] = {
    each.__name__: each
    for each in (produce_rate, consume_rate, one_record, transaction_width, transactions_at_once)
}
NAMES = (start_up.__name__, *IN_SCENE, memory.__name__)
"""In the order in which they are taken."""
