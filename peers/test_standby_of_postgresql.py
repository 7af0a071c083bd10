"""A synchronous standby of the PostgreSQL with the slots: promoted, it has all that was told."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from peers.postgresql import PostgreSql, Standby, psycopg

import semel
from semel import Producer
from semel.testing import Cluster

COUNT = 500
PATIENCE_S = 120.0


@pytest.fixture
def primary() -> Iterator[PostgreSql]:
    with PostgreSql() as running:
        yield running


@pytest.fixture
def standby(primary: PostgreSql) -> Iterator[Standby]:
    with Standby(primary) as running:
        primary.set("synchronous_standby_names", Standby.NAME)
        yield running


def is_waited_for(primary: PostgreSql) -> bool:
    with psycopg.connect(primary.url) as connection:
        asked = "select count(*) from pg_stat_replication where sync_state = 'sync'"
        return bool(connection.execute(asked).fetchone()[0])


def test_a_promoted_standby_has_all_that_was_acknowledged(
    primary: PostgreSql, standby: Standby, tmp_path: Path
) -> None:
    while not is_waited_for(primary):
        pass
    hosts = f"{primary.folder},{standby.folder}"
    journal = f"postgresql:///postgres?host={hosts}&user=semel"
    settings = {"store.flush.interval.ms": 10}
    with Cluster(store=f"file://{tmp_path}/store", journal=journal, settings=settings) as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        (made,) = admin.create_topics([NewTopic("t", 1)]).values()
        made.result(PATIENCE_S)
        with Producer(servers, delivery_timeout_ms=int(PATIENCE_S * 1000)) as producer:
            for number in range(COUNT):
                producer.send("t", b"%d" % number).result(PATIENCE_S)
            under_way = [producer.send("t", b"%d" % (COUNT + number)) for number in range(COUNT)]
            primary.stop()
            standby.promote()
            for sent in under_way:
                sent.result(PATIENCE_S)
        table = semel.read("t", bootstrap_servers=servers, columns=["value"])
        values = [int(value) for value in table.column("value").to_pylist()]
    assert values == list(range(2 * COUNT))
