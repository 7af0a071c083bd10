"""Real nodes in processes of their own, on a folder as their store, under unmodified clients."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, Message
from confluent_kafka.admin import AdminClient, NewTopic

from semel import Producer
from semel.cluster.levels import LEVELS
from semel.errors import NONE
from semel.testing import Broker, Cluster
from semel.testing.broker import BrokerDidNotStart
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.clients import QUIET, Background, Count
from support.raw_client import RawClient

PATIENCE_S = 60.0
REQUEST_TIMEOUT_MS = 2_000
"""Who has asked a frozen node waits as long as that before it asks another."""
TOPIC = "t"

Stream = Callable[[str, str, Sequence[bytes], Callable[[], None]], None]


class Sender:
    """An idempotent producer that knows all addresses."""

    def __init__(self, servers: str) -> None:
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 200,
            }
        )
        self.acknowledged: list[bytes] = []
        self.failed: list[str] = []
        self._sent = 0

    def _told(self, error: object, message: Message) -> None:
        if error is None:
            value = message.value()
            assert isinstance(value, bytes)
            self.acknowledged.append(value)
        else:
            self.failed.append(str(error))

    def send(self, count: int) -> None:
        """Without waiting for any of them."""
        for _ in range(count):
            self._producer.produce(TOPIC, b"%d" % self._sent, callback=self._told)
            self._sent += 1
            self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(PATIENCE_S) == 0

    @property
    def sent(self) -> list[bytes]:
        return [b"%d" % number for number in range(self._sent)]


def read_all(servers: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            # It would find nothing to commit when it is asked to, if it just had.
            "enable.auto.commit": False,
        }
    )
    found: list[bytes] = []
    try:
        consumer.subscribe([TOPIC])
        deadline_s = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline_s:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                value = message.value()
                assert isinstance(value, bytes)
                found.append(value)
        # What is there twice would come behind.
        message = consumer.poll(0.5)
        assert message is None or message.error() is not None
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


def create_topic(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(TOPIC, 1)]).values():
        made.result(PATIENCE_S)


def test_an_unmodified_client_goes_on_over_a_kill_and_a_stop(semel_cluster: Cluster) -> None:
    servers, leader = semel_cluster.bootstrap_servers, semel_cluster.leader
    create_topic(servers)
    sender = Sender(servers)
    sender.send(200)
    sender.flush()
    sender.send(200)
    semel_cluster.kill(leader)
    sender.send(200)
    second = semel_cluster.leader
    sender.flush()
    semel_cluster.start(leader)
    sender.send(200)
    semel_cluster.stop(second)
    sender.send(200)
    third = semel_cluster.leader
    sender.flush()
    assert third != second
    assert sender.failed == []
    assert sender.acknowledged == sender.sent
    assert read_all(servers, len(sender.sent)) == sender.sent


def places(cluster: Cluster) -> list[str]:
    journal = [] if cluster.journal is None else ["--journal", cluster.journal]
    return ["--store", cluster.store, *journal, "--ephemeral"]


def steer(cluster: Cluster, *arguments: str) -> dict[str, int]:
    command = [sys.executable, "-m", "semel", "cluster", *arguments, *places(cluster)]
    done = subprocess.run([*command, "--json"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told: dict[str, int] = json.loads(done.stdout)
    return told


def test_an_unmodified_client_goes_on_over_moves_and_drains(semel_cluster: Cluster) -> None:
    leader = semel_cluster.leader
    create_topic(semel_cluster.bootstrap_servers)
    sender = Sender(semel_cluster.bootstrap_servers)
    for other in [number for number in semel_cluster.nodes if number != leader] * 2:
        sender.send(100)
        moved = steer(semel_cluster, "move", "--to", str(other))
        assert moved["leader"] == semel_cluster.leader == other
        sender.send(100)
    drained = steer(semel_cluster, "drain", str(other))
    assert drained["leader"] != other
    assert semel_cluster.leader == drained["leader"]
    assert steer(semel_cluster, "drain", str(other), "--undo") == {"node": other, "drained": False}
    assert steer(semel_cluster, "upgrade") == {"level": LEVELS.newest}
    sender.flush()
    assert sender.failed == []
    assert sender.acknowledged == sender.sent
    assert read_all(semel_cluster.bootstrap_servers, len(sender.sent)) == sender.sent


def test_every_node_tells_of_all_nodes(semel_cluster: Cluster) -> None:
    addresses = {(number, node.port) for number, node in semel_cluster.nodes.items()}
    for node in semel_cluster.nodes.values():
        deadline_s = time.monotonic() + PATIENCE_S
        told: set[tuple[int, int]] = set()
        with RawClient(node) as client:
            while told != addresses:
                assert time.monotonic() < deadline_s, told
                brokers = client.call("metadata", 12, MetadataRequest([])).brokers
                told = {(each.node_id, each.port) for each in brokers}


def test_who_names_a_node_that_is_not_there_hears_a_sentence(semel_cluster: Cluster) -> None:
    command = [sys.executable, "-m", "semel", "cluster", "move", "--to", "9"]
    command += places(semel_cluster)
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("semel: node 9 does not stand by; of the others: ")


def test_the_cluster_shows_how_it_is(semel_cluster: Cluster) -> None:
    leader = semel_cluster.leader
    ask = [sys.executable, "-m", "semel", "cluster", "status", *places(semel_cluster)]

    def status(*options: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([*ask, *options], check=False, capture_output=True, text=True)

    deadline_s = time.monotonic() + PATIENCE_S
    told: dict[str, Any] = {"nodes": []}
    while len(told["nodes"]) < len(semel_cluster.nodes):
        assert time.monotonic() < deadline_s, told
        told = json.loads(status("--json").stdout)
    assert told["leader"] == leader
    ports = {node["node"]: node["port"] for node in told["nodes"]}
    assert ports == {number: node.port for number, node in semel_cluster.nodes.items()}
    assert told["store"]["puts_per_s"] > 0
    is_database = semel_cluster.store.startswith("postgresql:")
    assert (told["store"]["usd_per_month"] > 0) is not is_database, "whose requests cost nothing"
    shown = status()
    assert shown.returncode == 0
    assert f"node {leader} at 127.0.0.1:{ports[leader]}" in shown.stdout
    assert shown.stdout.count("stands by") == len(ports) - 1
    for node in semel_cluster.nodes.values():
        node.kill()
    shown = status()
    assert shown.returncode == 1
    assert f"node {leader}: 127.0.0.1:{ports[leader]} does not answer" in shown.stderr
    assert "led last" in shown.stdout


def test_whichever_node_is_asked_gives_producer_ids_and_makes_topics(
    semel_cluster: Cluster,
) -> None:
    given = set()
    for number, node in semel_cluster.nodes.items():
        with RawClient(node) as client:
            reply = client.call("init_producer_id", 4, InitProducerIdRequest(None, 60_000))
            assert reply.error_code == NONE
            given.add(reply.producer_id)
            wanted = MetadataRequest([MetadataRequestTopic(name=f"made-by-{number}")], True)
            deadline_s = time.monotonic() + PATIENCE_S
            while client.call("metadata", 12, wanted).topics[0].error_code != NONE:
                assert time.monotonic() < deadline_s
    assert len(given) == len(semel_cluster.nodes)


def send_by_semel(
    servers: str, topic: str, values: Sequence[bytes], on_acked: Callable[[], None]
) -> None:
    with Producer(
        servers, linger_ms=1, batch_size_max=256, request_timeout_ms=REQUEST_TIMEOUT_MS
    ) as producer:
        for value in values:
            producer.send(topic, value=value, on_delivery=lambda *_: on_acked())


def send_by_confluent(
    servers: str, topic: str, values: Sequence[bytes], on_acked: Callable[[], None]
) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 20,
            "socket.timeout.ms": REQUEST_TIMEOUT_MS,
            **QUIET,
        }
    )

    def told(error: object, _: object) -> None:
        assert error is None, error
        on_acked()

    for value in values:
        producer.produce(topic, value, on_delivery=told)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0


@pytest.mark.parametrize(
    "stream", [send_by_semel, send_by_confluent], ids=["semel", "confluent-kafka"]
)
def test_a_leader_that_is_frozen_and_wakes_up_doubles_nothing(
    semel_cluster: Cluster, stream: Stream
) -> None:
    values = [b"%d" % number for number in range(4_000)]
    acked = Count()
    servers, leader = semel_cluster.bootstrap_servers, semel_cluster.leader
    create_topic(servers)
    sending = Background(lambda: stream(servers, TOPIC, values, acked.add))
    acked.reach(1_000)
    semel_cluster.freeze(leader)
    successor = semel_cluster.leader
    acked.reach(2_000)
    semel_cluster.resume(leader)
    acked.reach(3_000)
    semel_cluster.kill(successor)
    sending.join()
    assert read_all(servers, len(values)) == values


def test_a_node_is_refused_with_a_sentence_where_there_is_no_cluster(tmp_path: Path) -> None:
    arguments = ("--store", f"file://{tmp_path}/none", "--node-id", "1")
    with pytest.raises(BrokerDidNotStart, match="there is no cluster in this store"):
        Broker(arguments=arguments).start()
