"""Real nodes on a folder as their store: what lives is settled, what is deleted goes."""

import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import confluent_kafka
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from semel.cli.main import main
from semel.testing import Broker, Cluster
from semel.testing.broker import BrokerDidNotStart

PATIENCE_S = 60.0
VALUE_SIZE = 200_000
COUNT = 105
"""Four times as many are more than is settled at once on a store."""
SETTINGS = {"log.retention.check.interval.ms": 500}


def folder_of(cluster: Cluster) -> Path:
    return Path(urlsplit(cluster.store).path)


def bytes_in(folder: Path) -> int:
    found = 0
    for path in folder.rglob("*"):
        try:
            found += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return found


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.1)


def value(topic: str, number: int) -> bytes:
    return (b"%s %d " % (topic.encode(), number)).ljust(VALUE_SIZE, b"%d" % (number % 10))


def leads(broker: Broker, node_id: int) -> bool:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    return bool(admin.list_topics(timeout=PATIENCE_S).controller_id == node_id)


def create(servers: str, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(topic, 1) for topic in topics]).values():
        made.result(PATIENCE_S)


def delete(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for deleted in admin.delete_topics([topic]).values():
        deleted.result(PATIENCE_S)


def produce(servers: str, topics: tuple[str, ...], count: int) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "linger.ms": 5, "message.max.bytes": 1_000_000}
    )
    failed: list[object] = []
    for number in range(count):
        for topic in topics:
            producer.produce(
                topic,
                value(topic, number),
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        producer.poll(0)
        if number % 20 == 0:
            producer.flush(PATIENCE_S)
    assert producer.flush(PATIENCE_S) == 0
    assert failed == []


def read_all(servers: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g"})
    found: list[bytes | None] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline_s = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline_s:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append(message.value())
    finally:
        consumer.close()
    return found


def test_a_cluster_settles_takes_over_and_forgets() -> None:
    with Cluster(2, settings=SETTINGS) as cluster:
        servers, folder = cluster.bootstrap_servers, folder_of(cluster)
        create(servers, "kept", "gone")
        produce(servers, ("kept", "gone", "gone", "gone"), COUNT)
        volumes = folder / "vol"
        until(lambda: bytes_in(volumes) > 50_000_000, "nothing is settled")
        # Slots go when what lives in them lies in volumes.
        until(lambda: bytes_in(folder / "j") < 40_000_000, "no slots are freed")
        expected = [value("kept", number) for number in range(COUNT)]
        assert read_all(servers, "kept", len(expected)) == expected
        cluster.kill(cluster.leader)
        assert cluster.leader
        assert read_all(servers, "kept", len(expected)) == expected
        delete(servers, "gone")
        until(lambda: bytes_in(folder) < 60_000_000, "what was deleted is still there")
        assert read_all(servers, "kept", len(expected)) == expected
        delete(servers, "kept")
        until(lambda: bytes_in(volumes) == 0, "volumes of deleted topics are still there")
        until(lambda: bytes_in(folder) < 1_000_000, "objects of deleted topics are still there")


def test_a_node_keeps_what_it_stores_in_its_cache_and_shares_that_with_nobody(
    tmp_path: Path,
) -> None:
    store, cache = f"file://{tmp_path}/store", tmp_path / "cache"
    assert main(["cluster", "create", "--store", store, "--ephemeral"]) == 0

    def node(node_id: int) -> Broker:
        return Broker(
            arguments=("--store", store, "--node-id", str(node_id), "--cache", str(cache)),
            settings={"cluster.detection.ms": 1_000},
        )

    with node(1) as first:
        until(lambda: leads(first, 1), "nobody leads")
        create(first.bootstrap_servers, "t")
        produce(first.bootstrap_servers, ("t",), 20)
        expected = [value("t", number) for number in range(20)]
        assert read_all(first.bootstrap_servers, "t", 20) == expected
        until(lambda: any((cache / "cache").iterdir()), "nothing is cached")
        with pytest.raises(BrokerDidNotStart, match="another broker is using"):
            node(2).start()
    with node(2) as second:
        until(lambda: leads(second, 2), "nobody leads")
        assert read_all(second.bootstrap_servers, "t", 20) == expected
