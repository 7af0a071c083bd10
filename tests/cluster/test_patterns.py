"""Who reads all topics of some name keeps them while nodes come and go.

A list without them would say that they are gone.
"""

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from semel import Producer
from semel.testing import Cluster
from support.clients import QUIET

TOPICS = {"pattern-a", "pattern-b", "pattern-c"}
PATIENCE_S = 60.0


def cut_off_from_store(cluster: Cluster, leader: int) -> None:
    cluster.cut_off_from_store(leader)


class Lister(threading.Thread):
    """Asks one node for all topics, again and again, past all others."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self.lists: list[set[str]] = []
        self._admin = AdminClient({"bootstrap.servers": servers, **QUIET})
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(0.02):
            try:
                self.lists.append(set(self._admin.list_topics(timeout=2).topics))
            except KafkaException:
                continue

    def stop(self) -> None:
        self._stopping.set()
        self.join(PATIENCE_S)


@pytest.mark.parametrize("deed", [Cluster.kill, cut_off_from_store])
def test_topics_do_not_vanish_while_another_node_takes_over(
    deed: Callable[[Cluster, int], None],
) -> None:
    with Cluster(proxied=True) as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, **QUIET})
        for made in admin.create_topics([NewTopic(name, 1) for name in TOPICS]).values():
            made.result(PATIENCE_S)
        assigned: list[set[str]] = []

        def note(_: Consumer, partitions: list[TopicPartition]) -> None:
            assigned.append({each.topic for each in partitions})

        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "socket.timeout.ms": 2_000,
                "topic.metadata.refresh.interval.ms": 100,
                "reconnect.backoff.max.ms": 500,
                **QUIET,
            }
        )
        consumer.subscribe(["^pattern-.*"], on_assign=note)
        listers = [Lister(node.address) for node in cluster.nodes.values()]
        with Producer(servers, request_timeout_ms=2_000) as producer:
            expected: set[bytes] = set()

            def read_on() -> None:
                for topic in TOPICS:
                    value = b"%s %d" % (topic.encode(), len(expected))
                    producer.send(topic, value).result(PATIENCE_S)
                    expected.add(value)
                while missing := expected - seen:
                    message = consumer.poll(PATIENCE_S)
                    assert message is not None, f"{missing} do not come"
                    if message.error() is None:
                        seen.add(message.value() or b"")

            seen: set[bytes] = set()
            read_on()
            for lister in listers:
                lister.start()
            for _ in range(2):
                deed(cluster, cluster.leader)
                read_on()
                cluster.mend()
            for lister in listers:
                lister.stop()
        consumer.close()
        assert assigned
        assert all(topics == TOPICS for topics in assigned), assigned
        for lister in listers:
            assert lister.lists
            assert all(topics >= TOPICS for topics in lister.lists)
