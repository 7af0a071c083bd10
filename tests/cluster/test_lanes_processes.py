"""Real nodes that lead several lanes, under unmodified clients."""

import contextlib
import threading
from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from semel.testing import Cluster

LANES = 4
PARTITIONS = 8
PATIENCE_S = 60.0
TRIES = 60


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, lanes=LANES) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        for created in admin.create_topics([NewTopic("t", PARTITIONS, 1)]).values():
            created.result(PATIENCE_S)
        yield cluster


def read(cluster: Cluster) -> list[list[int]]:
    """What is committed in each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    ended: set[int] = set()
    try:
        consumer.assign([TopicPartition("t", index, 0) for index in range(PARTITIONS)])
        for _ in range(10_000):
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"nothing more comes, and {ended} have ended"
            error = message.error()
            if error is None:
                found[message.partition()].append(int(message.value()))
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ended.add(message.partition())
                if len(ended) == PARTITIONS:
                    return found
    finally:
        consumer.close()
    raise AssertionError("it does not end")


class Disturbing:
    """Beside the clients, a few times."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._thread = threading.Thread(target=self._run)
        self.error: BaseException | None = None

    def __enter__(self) -> "Disturbing":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        assert self.error is None

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._disturb()
        except BaseException as error:  # noqa: BLE001 - told where it is waited for.
            self.error = error

    def _disturb(self) -> None:
        cluster = self._cluster
        lanes = cluster.lanes
        cluster.move(lanes[1] % 3 + 1, lane=1)
        victim = next(node_id for node_id in cluster.nodes if node_id != cluster.leader)
        cluster.kill(victim)
        assert set(cluster.lanes) == set(range(LANES))
        cluster.start(victim)
        leader = cluster.leader
        cluster.stop(leader)
        cluster.start(leader)
        cluster.move(leader, lane=2)
        cluster.kill(cluster.leader)
        assert set(cluster.lanes) == set(range(LANES))
        cluster.mend()


def test_each_record_is_there_once_and_in_order(cluster: Cluster) -> None:
    failed: list[object] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "enable.idempotence": True,
            "reconnect.backoff.max.ms": 1000,
            "log_level": 0,
        }
    )
    sent = 0
    with Disturbing(cluster) as disturbing:
        while not disturbing.is_over:
            producer.produce(
                "t",
                b"%d" % sent,
                partition=sent % PARTITIONS,
                on_delivery=lambda error, _: failed.append(error) if error is not None else None,
            )
            sent += 1
            producer.poll(0.005)
    assert producer.flush(PATIENCE_S) == 0
    assert failed == []
    expected = [list(range(index, sent, PARTITIONS)) for index in range(PARTITIONS)]
    assert read(cluster) == expected


def transactional(cluster: Cluster) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": "id",
            "reconnect.backoff.max.ms": 1000,
            "log_level": 0,
        }
    )
    for _ in range(TRIES):
        with contextlib.suppress(confluent_kafka.KafkaException):
            producer.init_transactions(PATIENCE_S)
            return producer
    raise AssertionError("it cannot be begun")


def test_a_transaction_over_all_lanes_is_there_as_a_whole_or_not_at_all(cluster: Cluster) -> None:
    producer = transactional(cluster)
    committed: list[int] = []
    number = 0
    with Disturbing(cluster) as disturbing:
        while not disturbing.is_over or len(committed) < 3:
            number += 1
            try:
                producer.begin_transaction()
                for index in range(PARTITIONS):
                    producer.produce("t", b"%d" % number, partition=index)
                producer.commit_transaction(PATIENCE_S)
            except confluent_kafka.KafkaException as error:
                why = error.args[0]
                if why.txn_requires_abort():
                    producer.abort_transaction(PATIENCE_S)
                else:
                    # It is fenced, as nobody can tell what became of its commit.
                    producer = transactional(cluster)
            else:
                committed.append(number)
    found = read(cluster)
    assert all(partition == found[0] for partition in found), "torn"
    assert found[0] == sorted(set(found[0]))
    assert set(committed) <= set(found[0])
