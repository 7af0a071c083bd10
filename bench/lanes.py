"""What a transaction over several lanes takes beside one in which all lies in a single lane."""

import itertools
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final, NamedTuple, TypeVar

from bench import load, processes, stores
from bench.figures import Figure, Plan
from bench.transactions import NOW_MS
from semel.records.partitioning import partition_for
from semel.records.records import Record, encode_batch
from semel.testing import Broker
from semel.types import TopicPartition
from semel.wire.apis import BY_KEY
from semel.wire.messages import (
    create_topics,
    end_txn,
    find_coordinator,
    init_producer_id,
    metadata,
    produce,
)

T = TypeVar("T")

PUT_MS: Final = 30
LANES_ON_STORE: Final = 4
NODES: Final = 2
WORKERS: Final = 2
PAUSE_S: Final = 0.3
"""By then an idle lane has stored what nobody waits for."""
IDS_PARTITIONS: Final = 50
PATIENCE_S: Final = 30.0
TRIES_S: Final = 0.05
_PRODUCE, _METADATA, _FIND, _CREATE, _INIT, _END = 0, 3, 10, 19, 22, 26
_VERSIONS: Final = {_PRODUCE: 12, _METADATA: 8, _FIND: 2, _CREATE: 5, _INIT: 5, _END: 5}


def _topic_of(lane: int) -> str:
    return f"lane-{lane}"


class Client:
    """A TV2 producer that knows where all lies; its coordinator is in lane 0."""

    def __init__(self, ports: Sequence[int], lane_count: int) -> None:
        self._links = {port: _connected(port) for port in ports}
        any_port = ports[0]
        self._port_of: dict[TopicPartition, int] = {}
        self._id = next(
            name
            for name in (f"id-{number}" for number in itertools.count())
            if partition_for(name, IDS_PARTITIONS) % lane_count == 0
        )
        found = _until(lambda: self._coordinator(any_port))
        self._coordinator_port = found
        topics = [metadata.MetadataRequestTopic(name=_topic_of(lane)) for lane in range(lane_count)]
        self._port_of = _until(lambda: self._leaders(any_port, topics))
        reply = self._ask(found, _INIT, init_producer_id.InitProducerIdRequest(self._id, 60_000))
        assert reply.error_code == 0, f"InitProducerId answered {reply.error_code}"
        self._producer_id, self._epoch = reply.producer_id, reply.producer_epoch

    def transact(self, partitions: Sequence[TopicPartition]) -> "Took":
        """One record to each."""
        started = time.perf_counter()
        batch = encode_batch(
            [Record(None, b"x" * 100, NOW_MS)],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=0,
            is_transactional=True,
        )
        by_port: dict[int, dict[str, list[int]]] = {}
        for topic, index in partitions:
            by_topic = by_port.setdefault(self._port_of[TopicPartition(topic, index)], {})
            by_topic.setdefault(topic, []).append(index)
        for port, by_topic in by_port.items():
            data = [
                produce.TopicProduceData(
                    topic, [produce.PartitionProduceData(index, batch) for index in indexes]
                )
                for topic, indexes in by_topic.items()
            ]
            self._send(port, _PRODUCE, produce.ProduceRequest(self._id, -1, 30_000, data))
        for port in by_port:
            for topic in self._receive(port, _PRODUCE).responses:
                for each in topic.partition_responses:
                    assert each.error_code == 0, f"Produce answered {each.error_code}"
        sent = time.perf_counter()
        request = end_txn.EndTxnRequest(self._id, self._producer_id, self._epoch, True)
        reply = self._ask(self._coordinator_port, _END, request)
        assert reply.error_code == 0, f"EndTxn answered {reply.error_code}"
        self._producer_id, self._epoch = reply.producer_id, reply.producer_epoch
        done = time.perf_counter()
        return Took(done - started, done - sent)

    def close(self) -> None:
        for link in self._links.values():
            link.close()

    def _coordinator(self, port: int) -> int | None:
        reply = self._ask(port, _FIND, find_coordinator.FindCoordinatorRequest(self._id, 1))
        return None if reply.error_code else int(reply.port)

    def _leaders(self, port: int, topics: list[Any]) -> dict[TopicPartition, int] | None:
        reply = self._ask(port, _METADATA, metadata.MetadataRequest(topics))
        ports = {broker.node_id: broker.port for broker in reply.brokers}
        found = {}
        for topic in reply.topics:
            for each in topic.partitions:
                if topic.error_code or each.error_code:
                    return None
                found[TopicPartition(topic.name, each.partition_index)] = ports[each.leader_id]
        return found or None

    def _ask(self, port: int, key: int, body: object) -> Any:
        self._send(port, key, body)
        return self._receive(port, key)

    def _send(self, port: int, key: int, body: object) -> None:
        self._links[port].sendall(load.request(key, _VERSIONS[key], body))

    def _receive(self, port: int, key: int) -> Any:
        reply = load.receive_exactly(self._links[port])
        is_flexible = _VERSIONS[key] >= BY_KEY[key].flexible_version_min
        return BY_KEY[key].decode_response(reply, 5 if is_flexible else 4, _VERSIONS[key])[0]


class Took(NamedTuple):
    whole_s: float
    commit_s: float


def commit_over_lanes_on_store(plan: Plan) -> Iterator[Figure]:
    """Median time of EndTxn, with four lanes that two nodes lead over with one of them."""
    with stores.store(PUT_MS, lanes=LANES_ON_STORE), ExitStack() as stack:
        ports = _nodes(stack)
        client = Client(ports, LANES_ON_STORE)
        stack.callback(client.close)
        count = max(10, int(plan.seconds * 10))
        for name, pause_s in (("idle lanes", PAUSE_S), ("lanes, back to back", 0.0)):
            one, four = _by_turns(client, LANES_ON_STORE, count, pause_s)
            yield Figure(
                f"commit on a store, {PUT_MS} ms a PUT, over 4 {name} / over 1",
                _median_ms(four, "commit_s") / _median_ms(one, "commit_s"),
                "<= 1.3",
                {
                    "four_commit_ms": _median_ms(four, "commit_s"),
                    "one_commit_ms": _median_ms(one, "commit_s"),
                    "four_whole_ms": _median_ms(four, "whole_s"),
                    "one_whole_ms": _median_ms(one, "whole_s"),
                },
            )


def transaction_over_two_lanes(plan: Plan) -> Iterator[Figure]:
    """On files: two workers that lead a lane each, and all in one of the lanes."""
    with tempfile.TemporaryDirectory(prefix="semel-bench-") as folder, ExitStack() as stack:
        broker = stack.enter_context(Broker(data=folder, workers=WORKERS))
        ports = [broker.port + number for number in range(WORKERS)]
        _create(ports[0], WORKERS)
        client = Client(ports, WORKERS)
        stack.callback(client.close)
        one, two = _by_turns(client, WORKERS, int(plan.seconds * 100), 0.0)
        cpu_ms: tuple[list[float], list[float]] = [], []
        for _ in range(plan.repeats):
            for found, partitions in zip(cpu_ms, (_in_one(WORKERS), _in_all(WORKERS)), strict=True):
                found.append(_cpu_ms(broker, client, partitions, plan.seconds))
        one_ms, two_ms = map(statistics.median, cpu_ms)
    yield Figure(
        "transaction over two lanes on files / in one: time",
        _median_ms(two, "whole_s") / _median_ms(one, "whole_s"),
        "<= 2",
        {"two_ms": _median_ms(two, "whole_s"), "one_ms": _median_ms(one, "whole_s")},
    )
    yield Figure(
        "transaction over two lanes on files / in one: CPU of the workers",
        two_ms / one_ms,
        "<= 3",
        {"two_ms": two_ms, "one_ms": one_ms},
    )


def _in_one(lane_count: int) -> list[TopicPartition]:
    return [TopicPartition(_topic_of(0), index) for index in range(lane_count)]


def _in_all(lane_count: int) -> list[TopicPartition]:
    return [TopicPartition(_topic_of(lane), 0) for lane in range(lane_count)]


def _by_turns(
    client: Client, lane_count: int, count: int, pause_s: float
) -> tuple[list[Took], list[Took]]:
    """In one lane and over all of them. Without a pause, many of a kind follow each other."""
    found: tuple[list[Took], list[Took]] = [], []
    kinds = _in_one(lane_count), _in_all(lane_count)
    in_a_row = 1 if pause_s else max(5, count // 4)
    while len(found[1]) < count:
        for took, partitions in zip(found, kinds, strict=True):
            time.sleep(PAUSE_S)
            for _ in range(in_a_row):
                took.append(client.transact(partitions))
    return found


def _cpu_ms(
    broker: Broker, client: Client, partitions: Sequence[TopicPartition], seconds: float
) -> float:
    """Of all workers, for each transaction; the kernel counts it in hundredths of a second."""
    ids = broker.worker_process_ids.values()
    before = sum(map(processes.cpu_seconds, ids))
    count, ends_s = 0, time.perf_counter() + 4 * seconds
    while time.perf_counter() < ends_s:
        client.transact(partitions)
        count += 1
    return (sum(map(processes.cpu_seconds, ids)) - before) / count * 1e3


def _nodes(stack: ExitStack) -> list[int]:
    nodes = [stack.enter_context(stores.node(number)) for number in range(1, NODES + 1)]
    ports = [node.port for node in nodes]
    _create(stores.wait_for_leader(*ports), LANES_ON_STORE)
    return ports


def _create(port: int, lane_count: int) -> None:
    """A topic in each lane, with as many partitions as there are lanes."""
    topics = [
        create_topics.CreatableTopic(
            _topic_of(lane),
            lane_count,
            1,
            configs=[create_topics.CreatableTopicConfig("semel.lane", str(lane))],
        )
        for lane in range(lane_count)
    ]
    frame = load.request(_CREATE, _VERSIONS[_CREATE], create_topics.CreateTopicsRequest(topics))
    reply, _ = create_topics.decode_response(load.ask(port, frame), 5, _VERSIONS[_CREATE])
    for each in reply.topics:
        assert each.error_code == 0, f"{each.name}: {each.error_message}"


def _until(look: Callable[[], T | None]) -> T:
    ends_s = time.perf_counter() + PATIENCE_S
    while (found := look()) is None:
        assert time.perf_counter() < ends_s, "not all lanes are led"
        time.sleep(TRIES_S)
    return found


def _connected(port: int) -> socket.socket:
    link = socket.create_connection(("127.0.0.1", port))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def _median_ms(took: Sequence[Took], name: str) -> float:
    return float(statistics.median(getattr(each, name) for each in took) * 1000)
