"""Transactions over several workers, under unmodified clients, while workers are killed."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import confluent_kafka
import pytest
from chaos.scene import Hung, within
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from semel import Producer
from semel.testing import Broker
from support.clients import QUIET, Background, Count, confluent_consumer

WORKERS = 3
PARTITIONS = range(WORKERS)
PATIENCE_S = 60.0
OFFSETS_S = 10.0
HUNG_S = 20.0
SETTINGS = {"group.min.session.timeout.ms": 1000}


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path / "data", settings=SETTINGS, workers=WORKERS) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
        for topic in ("in", "out"):
            admin.create_topics([NewTopic(topic, WORKERS, 1)])[topic].result(PATIENCE_S)
        yield broker


def committed(broker: Broker, topic: str) -> dict[int, list[bytes]]:
    """What a reader of committed records finds in each partition, up to its end."""
    options = {"isolation.level": "read_committed", "enable.auto.commit": False}
    found: dict[int, list[bytes]] = {}
    for index in PARTITIONS:
        with confluent_consumer(broker.bootstrap_servers, options=options) as consumer:
            partition = TopicPartition(topic, index, 0)
            _, end = consumer.get_watermark_offsets(partition, 30)
            consumer.assign([partition])
            values = found[index] = []
            deadline_s = time.monotonic() + PATIENCE_S
            while consumer.position([partition])[0].offset < end:
                assert time.monotonic() < deadline_s, f"{topic}-{index} stops before its end"
                message = consumer.poll(0.2)
                if message is not None and message.error() is None:
                    values.append(message.value())
    return found


class Writer:
    """Writes each number to all partitions in a transaction, and aborts every third."""

    def __init__(self, broker: Broker, transactional_id: str) -> None:
        self._servers = broker.bootstrap_servers
        self._id = transactional_id
        self._producer = self._made()
        self.done = Count()
        self.known: list[bytes] = []
        """Of those that were told to be committed."""
        self.unknown: set[bytes] = set()
        """Nobody could tell the producer how these ended."""

    def _made(self) -> confluent_kafka.Producer:
        made = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._servers,
                "transactional.id": self._id,
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 200,
                "transaction.timeout.ms": 60_000,
                **QUIET,
            }
        )
        made.init_transactions(PATIENCE_S)
        return made

    def write(self, count: int) -> None:
        for number in range(count):
            value = f"{self._id}-{number}".encode()
            while not self._write(value, is_kept=number % 3 != 2):
                pass
            self.done.add()

    def _write(self, value: bytes, *, is_kept: bool) -> bool:
        """False if it has to be written again."""
        producer = self._producer
        is_committing = False
        try:
            producer.begin_transaction()
            for index in PARTITIONS:
                producer.produce("out", value, partition=index)
            if not is_kept:
                producer.flush(PATIENCE_S)
                producer.abort_transaction(PATIENCE_S)
                return True
            is_committing = True
            self._until_committed()
        except KafkaException as error:
            told: KafkaError = error.args[0]
            if told.txn_requires_abort():
                producer.abort_transaction(PATIENCE_S)
                return False
            if is_committing:
                self.unknown.add(value)
            self._producer = self._made()
            return is_committing or not is_kept
        self.known.append(value)
        return True

    def _until_committed(self) -> None:
        while True:
            try:
                self._producer.commit_transaction(PATIENCE_S)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return


def test_transactions_over_all_workers_are_whole_while_workers_are_killed(workers: Broker) -> None:
    writers = [Writer(workers, f"w{number}") for number in range(2)]
    writing = [Background(partial(writer.write, 40)) for writer in writers]
    for kill in range(2 * WORKERS):
        writers[kill % 2].done.reach(1 + 5 * kill)
        workers.kill_worker(kill % WORKERS + 1)
    for each in writing:
        each.join()
    found = committed(workers, "out")
    assert found[0] == sorted(set(found[0]), key=found[0].index), "something is there twice"
    assert set(found[0]) == set(found[1]) == set(found[2]), "a transaction is torn"
    told = {value for writer in writers for value in writer.known}
    unknown = {value for writer in writers for value in writer.unknown}
    assert told - set(found[0]) == set()
    assert set(found[0]) - told <= unknown
    for writer in writers:
        for index in PARTITIONS:
            its = [value for value in found[index] if value in set(writer.known)]
            assert its == writer.known


def test_what_is_told_to_be_committed_can_be_read_at_every_worker(workers: Broker) -> None:
    """Semel's own producer, whose epoch changes with each transaction."""
    with Producer(workers.bootstrap_servers, transactional_id="t") as producer:
        for number in range(20):
            with producer.transaction():
                for index in PARTITIONS:
                    producer.send("out", b"%d" % number, partition=index)
            if number % 5 == 0:
                workers.kill_worker(number // 5 % WORKERS + 1)
    expected = [b"%d" % number for number in range(20)]
    assert committed(workers, "out") == dict.fromkeys(PARTITIONS, expected)


def test_copying_with_offsets_is_exactly_once_while_workers_are_killed(workers: Broker) -> None:
    count = 300
    values = [b"%d" % number for number in range(count)]
    source = confluent_kafka.Producer({"bootstrap.servers": workers.bootstrap_servers, **QUIET})
    for number, value in enumerate(values):
        source.produce("in", value, partition=number % WORKERS)
    assert source.flush(PATIENCE_S) == 0
    batches = Count()

    def copy() -> None:
        while not copy_until_broken(workers.bootstrap_servers, count, batches):
            pass

    copying = Background(copy)
    for kill in range(WORKERS):
        batches.reach(1 + 4 * kill)
        workers.kill_worker(kill + 1)
    copying.join()
    found = committed(workers, "out")
    assert sorted(value for each in found.values() for value in each) == sorted(values)


def copy_until_broken(servers: str, count: int, batches: Count) -> bool:
    """From the committed offsets on. True when all is copied; False if a new producer has to
    begin, which goes on at what is committed."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "transactional.id": "copier", "linger.ms": 1, **QUIET}
    )
    producer.init_transactions(PATIENCE_S)
    options = {
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "session.timeout.ms": 6000,
    }
    everywhere = [TopicPartition("in", index) for index in PARTITIONS]
    with confluent_consumer(servers, "copiers", options) as consumer:
        consumer.subscribe(["in"])
        while True:
            messages = [each for each in consumer.consume(10, 1.0) if each.error() is None]
            if not messages:
                offsets = [each.offset for each in consumer.committed(everywhere, PATIENCE_S)]
                if sum(max(0, offset) for offset in offsets) == count:
                    return True
                continue
            try:
                producer.begin_transaction()
                for message in messages:
                    index = (message.partition() + 1) % WORKERS
                    producer.produce("out", message.value(), partition=index)
                # It may never return when a coordinator has gone (librdkafka's issue 5456).
                within(
                    HUNG_S,
                    partial(
                        producer.send_offsets_to_transaction,
                        consumer.position(consumer.assignment()),
                        consumer.consumer_group_metadata(),
                        OFFSETS_S,
                    ),
                )
                producer.commit_transaction(PATIENCE_S)
            except Hung:
                return False
            except KafkaException as error:
                if error.args[0].txn_requires_abort():
                    producer.abort_transaction(PATIENCE_S)
                return False
            batches.add()
