"""The store is away while clients go on: memory is bounded, nothing is lost, all goes on after."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import confluent_kafka
import pytest
from confluent_kafka import Consumer, Message

from semel.testing import Broker
from support.raw_client import METRICS, RawClient, metric, peak_resident_bytes, resident_bytes
from support.store_process import StoreProcess, store_process

SETTINGS = {"cluster.detection.ms": 2_000}
TOPIC = "t"
VALUE_BYTES = 100_000
PRODUCER_COUNT = 16
UNCONFIRMED_BYTES = 64 * 2**20
PATIENCE_S = 90.0
FOR_EVER_S = 1e6


@pytest.fixture
def store() -> Iterator[StoreProcess]:
    with store_process() as store:
        yield store


class Sender:
    """Sends as much as librdkafka takes, and remembers what became of each."""

    def __init__(self, servers: str, name: str) -> None:
        self._name = name
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "queue.buffering.max.kbytes": 10 * 1024,
                "message.timeout.ms": int(PATIENCE_S * 1000),
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self.sent_count = 0
        self.acknowledged: set[bytes] = set()
        self.failed: list[str] = []

    def _told(self, error: object, message: Message) -> None:
        key = message.key()
        assert isinstance(key, bytes)
        if error is None:
            self.acknowledged.add(key)
        else:
            self.failed.append(str(error))

    def send(self) -> None:
        """One, if there is room for it here."""
        key = f"{self._name}-{self.sent_count}".encode()
        try:
            self._producer.produce(TOPIC, bytes(VALUE_BYTES), key, on_delivery=self._told)
            self.sent_count += 1
        except BufferError:
            pass
        self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(PATIENCE_S) == 0


def wait_until(holds: Callable[[], bool], meanwhile: Callable[[], None]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline_s
        meanwhile()


def read_keys(servers: str, count: int) -> list[bytes]:
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
                key = message.key()
                assert isinstance(key, bytes)
                found.append(key)
    finally:
        consumer.close()
    return found


@contextmanager
def leading(store: StoreProcess) -> Iterator[Broker]:
    with store.node(1, SETTINGS, *METRICS) as node:
        wait_until(lambda: metric(node, "semel_is_leader") == 1, lambda: None)
        with RawClient(node) as client:
            client.create_topic(TOPIC)
        yield node


def test_memory_is_bounded_while_puts_hang_and_all_goes_on_after(store: StoreProcess) -> None:
    with leading(store) as node:
        senders = [Sender(node.bootstrap_servers, f"p{n}") for n in range(PRODUCER_COUNT)]

        def send() -> None:
            for sender in senders * 10:
                sender.send()

        wait_until(lambda: all(len(sender.acknowledged) > 10 for sender in senders), send)
        before = resident_bytes(node)
        store.control(latency_s={"PUT": FOR_EVER_S})
        # Longer than it takes to notice: it has stepped down, and clients have come back.
        wait_until(lambda: metric(node, "semel_step_downs") >= 1, send)
        for _ in range(100):
            send()
            assert metric(node, "semel_journal_unsynced_bytes") <= UNCONFIRMED_BYTES
        assert sum(sender.sent_count for sender in senders) * VALUE_BYTES > 2 * UNCONFIRMED_BYTES
        # What waits for the store, the same joined for a request or two, and requests held.
        assert peak_resident_bytes(node) - before < 3 * UNCONFIRMED_BYTES
        store.control(latency_s={})
        for sender in senders:
            sender.flush()
            assert sender.failed == []
            assert len(sender.acknowledged) == sender.sent_count
        sent = sum(sender.sent_count for sender in senders)
        keys = read_keys(node.bootstrap_servers, sent)
        assert len(keys) == len(set(keys)) == sent
        assert peak_resident_bytes(node) - before < 4 * UNCONFIRMED_BYTES
