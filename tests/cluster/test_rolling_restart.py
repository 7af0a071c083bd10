"""All nodes of a cluster are started anew, one after the other, under transactions: none is ended
by it, and a group reads each record once."""

import threading
import time
from collections.abc import Callable

import confluent_kafka
import pytest
from confluent_kafka import Consumer

import semel
from semel.testing import Cluster
from support.clients import QUIET, Background, Count
from support.raw_client import RawClient

PATIENCE_S = 60.0
TOPIC = "t"
RECORDS = 5

Transact = Callable[[str, threading.Event, Count], None]


def transact_by_confluent(servers: str, is_over: threading.Event, committed: Count) -> None:
    """TV1: any error is one that the application would have to handle."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "transactional.id": "id", "linger.ms": 1, **QUIET}
    )
    producer.init_transactions(PATIENCE_S)
    while not is_over.is_set():
        producer.begin_transaction()
        for number in range(RECORDS):
            producer.produce(TOPIC, b"%d-%d" % (committed.value, number))
        producer.commit_transaction(PATIENCE_S)
        committed.add()


def transact_by_semel(servers: str, is_over: threading.Event, committed: Count) -> None:
    """TV2."""
    with semel.Producer(servers, transactional_id="id", linger_ms=1) as producer:
        while not is_over.is_set():
            with producer.transaction():
                for number in range(RECORDS):
                    producer.send(TOPIC, b"%d-%d" % (committed.value, number))
            committed.add()


class Reader:
    """One member of a group that goes on through all of it."""

    def __init__(self, servers: str) -> None:
        self.seen: list[bytes] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                # It would find nothing to commit when it is asked to, if it just had.
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                **QUIET,
            }
        )

    def read(self, is_enough: Callable[[], bool]) -> None:
        self._consumer.subscribe([TOPIC])
        try:
            while not is_enough():
                message = self._consumer.poll(0.2)
                if message is not None and message.error() is None:
                    value = message.value()
                    assert isinstance(value, bytes)
                    self.seen.append(value)
            self._consumer.commit(asynchronous=False)
        finally:
            self._consumer.close()


@pytest.mark.parametrize(
    "transact", [transact_by_confluent, transact_by_semel], ids=["confluent-kafka", "semel"]
)
def test_a_rolling_restart_ends_no_transaction_and_loses_nothing(
    semel_cluster: Cluster, transact: Transact
) -> None:
    with RawClient(semel_cluster[semel_cluster.leader]) as client:
        client.create_topic(TOPIC)
    servers = semel_cluster.bootstrap_servers
    is_over, committed = threading.Event(), Count()
    sending = Background(lambda: transact(servers, is_over, committed))
    reader = Reader(servers)
    is_all_sent = threading.Event()
    deadline_s = time.monotonic() + 4 * PATIENCE_S

    def is_enough() -> bool:
        assert time.monotonic() < deadline_s
        return is_all_sent.is_set() and len(reader.seen) >= RECORDS * committed.value

    reading = Background(lambda: reader.read(is_enough))
    for node in semel_cluster.nodes:
        committed.reach(committed.value + 20)
        semel_cluster.stop(node)
        committed.reach(committed.value + 20)
        semel_cluster.start(node)
        assert semel_cluster.leader
    committed.reach(committed.value + 20)
    is_over.set()
    sending.join()
    is_all_sent.set()
    reading.join()
    assert reader.seen == [
        b"%d-%d" % (transaction, number)
        for transaction in range(committed.value)
        for number in range(RECORDS)
    ]
