"""Nodes on a store whose PUTs take 30 ms: commits, bytes, idling, takeovers and starts."""

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import confluent_kafka

from bench import load, processes, stores
from bench.figures import Figure, Plan, durable_broker
from bench.transactions import TransactionalClient
from semel.testing import Broker
from semel.wire.messages import produce

TOPIC = "bench"
PUT_MS = 30
FAST_PUT_MS = 1
MB = 1_000_000
PRODUCER_COUNT = 16
IDLE_NODES = 3
DETECTION_MS = 1_000
PATIENCE_S = 120.0


def commit_on_store(plan: Plan) -> Iterator[Figure]:
    """Median time of a transaction over that of the same records with acks=all."""
    plain, whole, commit = [], [], []
    with stores.leading_node(PUT_MS) as broker:
        load.wait_for_topic(broker.port, TOPIC)
        client = TransactionalClient(broker.port, "on-store")
        for _ in range(max(20, int(plan.seconds * 20))):
            started = time.perf_counter()
            client.send_plainly(1)
            plain.append(time.perf_counter() - started)
            started = time.perf_counter()
            client.send(1)
            sent = time.perf_counter()
            client.commit()
            done = time.perf_counter()
            whole.append(done - started)
            commit.append(done - sent)
        client.close()
    plain_ms, whole_ms = _median_ms(plain), _median_ms(whole)
    yield Figure(
        f"transaction on a store, {PUT_MS} ms a PUT: time / acks=all",
        whole_ms / plain_ms,
        "<= 1.15",
        {"transaction_ms": whole_ms, "commit_ms": _median_ms(commit), "acks_all_ms": plain_ms},
    )


def produce_cpu_on_store(plan: Plan) -> Iterator[Figure]:
    """CPU of the broker per acks=all request, on a store over on files, in turns."""
    for size in (16 * 1024, 1024):
        frame = load.produce_request(TOPIC, 0, size, acks=-1)
        on_files, on_store = [], []
        with durable_broker() as files, stores.leading_node(PUT_MS) as node:
            for broker in (files, node):
                load.wait_for_topic(broker.port, TOPIC)
                _cpu_us(broker, frame, plan.seconds / 2)
            for _ in range(max(3, plan.repeats)):
                on_files.append(_cpu_us(files, frame, plan.seconds))
                on_store.append(_cpu_us(node, frame, plan.seconds))
        files_us, store_us = statistics.median(on_files), statistics.median(on_store)
        yield Figure(
            f"produce acks=all, {size // 1024} KB: CPU per request, on a store / on files",
            store_us / files_us,
            "<= 1.3",
            {"files_us": files_us, "store_us": store_us},
        )


def _cpu_us(broker: Broker, frame: bytes, seconds: float) -> float:
    before = processes.cpu_seconds(broker.process_id)
    # So many at once that a slot holds hundreds, as it does under load.
    done = load.run(broker.port, lambda: frame, connections=32, in_flight=32, seconds=seconds)
    return (processes.cpu_seconds(broker.process_id) - before) / done.replies * 1e6


def bytes_on_slow_store(plan: Plan) -> Iterator[Figure]:
    """Bytes per second of 16 librdkafka producers, at 30 ms a PUT over at 1 ms, in turns."""
    rates: dict[int, list[float]] = {FAST_PUT_MS: [], PUT_MS: []}
    refused = 0.0
    for _ in range(plan.repeats):
        for put_ms, measured in rates.items():
            port = processes.free_port()
            with stores.leading_node(put_ms, f"--metrics=127.0.0.1:{port}") as broker:
                load.wait_for_topic(broker.port, TOPIC)
                measured.append(_mb_per_s(broker.bootstrap_servers, max(2.0, plan.seconds)))
                refused += processes.metric(port, "semel_writes_refused_total")
    fast, slow = (statistics.median(rates[put_ms]) for put_ms in (FAST_PUT_MS, PUT_MS))
    yield Figure(
        f"16 librdkafka producers, 1 MB batches, acks=all: bytes/s at {PUT_MS} ms / at 1 ms",
        slow / fast,
        ">= 0.7",
        {"slow_mb_per_s": slow, "fast_mb_per_s": fast, "refused": refused},
    )


def _mb_per_s(servers: str, seconds: float) -> float:
    value = bytes(MB)
    delivered = 0

    def told(error: object, message: object) -> None:
        nonlocal delivered
        assert error is None, error
        delivered += MB

    producers = [
        confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                "linger.ms": 0,
                "message.max.bytes": 2 * MB,
                "queue.buffering.max.messages": 8,
            }
        )
        for _ in range(PRODUCER_COUNT)
    ]

    def keep_busy(ends: float) -> None:
        while time.perf_counter() < ends:
            is_full = True
            for producer in producers:
                try:
                    producer.produce(TOPIC, value, on_delivery=told)
                    is_full = False
                except BufferError:
                    pass
                producer.poll(0)
            if is_full:
                time.sleep(0.001)

    started = time.perf_counter()
    # Connections are made, and buffers have grown, before anything counts.
    keep_busy(started + seconds / 2)
    before, started = delivered, time.perf_counter()
    keep_busy(started + seconds)
    elapsed = time.perf_counter() - started
    rate = (delivered - before) / elapsed / 1e6
    for producer in producers:
        producer.flush(PATIENCE_S)
    return rate


def idle_cluster(plan: Plan) -> Iterator[Figure]:
    """PUTs per second of three nodes that nobody asks for anything."""
    seconds = 10 if plan.repeats == 1 else 60
    with stores.store(PUT_MS) as store, ExitStack() as stack:
        nodes = [stack.enter_context(stores.node(number)) for number in range(1, IDLE_NODES + 1)]
        stores.wait_for_leader(*(node.port for node in nodes))
        before = store.control()["counts"]
        time.sleep(seconds)
        after = store.control()["counts"]
    rates = {verb: (after.get(verb, 0) - before.get(verb, 0)) / seconds for verb in after}
    yield Figure(
        "idle cluster of three nodes: PUTs per second",
        rates["PUT"],
        "<= 1",
        {
            f"{verb.lower()}s_per_s": rates[verb]
            for verb in ("GET", "LIST", "DELETE")
            if verb in rates
        },
    )


def takeover(plan: Plan) -> Iterator[Figure]:
    """From the kill of a leader to the first acknowledgement of its successor, at worst."""
    raw_s, client_s = [], []
    with stores.store(PUT_MS), ExitStack() as stack:
        nodes = {
            number: stack.enter_context(
                stores.node(number, cluster_detection_ms=DETECTION_MS, num_partitions=4)
            )
            for number in range(1, IDLE_NODES + 1)
        }
        for _ in range(3 if plan.repeats == 1 else 10):
            leader = stores.wait_for_leader(*(node.port for node in nodes.values()))
            load.wait_for_topic(leader, TOPIC)
            killed = next(node for node in nodes.values() if node.port == leader)
            others = [node.port for node in nodes.values() if node is not killed]
            servers = ",".join(node.bootstrap_servers for node in nodes.values())
            raw, client = _first_acknowledged_s(killed, others, servers)
            raw_s.append(raw)
            client_s.append(client)
            killed.start()
    detection_s = DETECTION_MS / 1000
    yield Figure(
        f"kill to first acknowledgement, librdkafka, detection {detection_s:g} s: s behind that",
        max(client_s) - detection_s,
        "<= 2",
        {
            "client_median_s": statistics.median(client_s),
            "raw_s_max": max(raw_s),
            "raw_median_s": statistics.median(raw_s),
        },
    )


def _first_acknowledged_s(killed: Broker, others: list[int], servers: str) -> tuple[float, float]:
    """By who asks all nodes again and again, and by an unmodified client."""
    acknowledged: list[float] = []
    heard: list[float] = []

    def told(error: object, message: confluent_kafka.Message) -> None:
        if error is None:
            acknowledged.append(time.perf_counter())

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0}
    )
    while not acknowledged:
        producer.produce(TOPIC, b"before", on_delivery=told)
        producer.flush(PATIENCE_S)
    frame = load.produce_request(TOPIC, 0, 100, acks=-1)

    def ask() -> None:
        while not heard:
            if any(_is_acknowledged(port, frame) for port in others):
                heard.append(time.perf_counter())
            time.sleep(0.01)

    asking = threading.Thread(target=ask)
    killed.kill()
    acknowledged.clear()
    started = time.perf_counter()
    asking.start()
    while not acknowledged:
        assert time.perf_counter() - started < PATIENCE_S, "nobody acknowledges"
        producer.produce(TOPIC, b"after", on_delivery=told)
        producer.poll(0.02)
    asking.join(PATIENCE_S)
    producer.flush(PATIENCE_S)
    return heard[0] - started, acknowledged[0] - started


def _is_acknowledged(port: int, frame: bytes) -> bool:
    try:
        reply, _ = produce.decode_response(load.ask(port, frame), 5, 9)
    except OSError:
        return False
    return bool(reply.responses[0].partition_responses[0].error_code == 0)


def start_on_store(plan: Plan) -> Iterator[Figure]:
    """Start of a node to its first acknowledged record, with much in the store over with little."""
    small, large = (100 * MB, 1_000 * MB) if plan.repeats == 1 else (100 * MB, 10_000 * MB)
    with stores.store(FAST_PUT_MS) as store:
        stored, small_s = _fill_and_start(store, small)
        small_bytes = stored
        stored, large_s = _fill_and_start(store, large)
    yield Figure(
        f"start of a node with {large // (1000 * MB)} GB in the store / with 100 MB",
        large_s / small_s,
        "<= 1.5",
        {"small_s": small_s, "large_s": large_s, "small_bytes": small_bytes, "bytes": stored},
    )


def _fill_and_start(store: stores.Store, size: int) -> tuple[int, float]:
    frame = load.produce_request(TOPIC, 0, MB, acks=-1)
    store.set_put_ms(FAST_PUT_MS)
    with stores.node(1, retention_enforce="false") as node:
        stores.wait_for_leader(node.port)
        load.wait_for_topic(node.port, TOPIC)
        while store.stored_bytes < size:
            load.run(node.port, lambda: frame, connections=4, in_flight=4, seconds=0.1)
    store.set_put_ms(PUT_MS)
    times = []
    frame = load.produce_request(TOPIC, 0, 1024, acks=-1)
    for _ in range(3):
        started = time.perf_counter()
        with stores.node(1) as node:
            stores.wait_for_leader(node.port)
            load.ask(node.port, frame)
            times.append(time.perf_counter() - started)
    return store.stored_bytes, statistics.median(times)


def _median_ms(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1000
