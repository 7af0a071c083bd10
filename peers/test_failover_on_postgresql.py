"""Three real nodes whose slots lie in PostgreSQL, or everything: the scenarios of other stores."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.postgresql import PostgreSql, psycopg

from cluster.test_processes import *  # noqa: F403
from semel.testing import Broker, Cluster
from semel.testing.broker import BrokerDidNotStart


def create(*places: str) -> str:
    command = [sys.executable, "-m", "semel", "cluster", "create", *places, "--ephemeral"]
    made = subprocess.run(command, check=False, capture_output=True, text=True)
    return made.stderr


def node(*places: str, number: int = 1) -> Broker:
    return Broker(
        settings={"cluster.detection.ms": 1_000},
        arguments=(*places, "--node-id", str(number)),
    )


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSql]:
    with PostgreSql() as running:
        yield running


@pytest.fixture
def database(server: PostgreSql) -> str:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("drop table if exists semel_objects")
    return server.url


@pytest.fixture(params=["slots", "everything"])
def semel_cluster(
    request: pytest.FixtureRequest, database: str, tmp_path: Path
) -> Iterator[Cluster]:
    """Instead of one on a folder."""
    if request.param == "slots":
        made = Cluster(store=f"file://{tmp_path}/store", journal=database)
    else:
        made = Cluster(store=database)
    with made as running:
        yield running


def slots_in(folder: Path) -> list[Path]:
    return [*folder.glob("store/j/**/*")]


def test_a_node_finds_the_slots_in_that_database_alone(database: str, tmp_path: Path) -> None:
    store = ("--store", f"file://{tmp_path}/store")
    assert create(*store, "--journal", database) == ""
    with node(*store, "--journal", database):
        assert not slots_in(tmp_path)
    with pytest.raises(BrokerDidNotStart, match=r"lie in postgresql:.*: name it with --journal"):
        node(*store).start()
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("create schema another")
    try:
        another = f"{database}&options=-csearch_path%3Danother"
        with pytest.raises(BrokerDidNotStart, match="holds the slots of no cluster"):
            node(*store, "--journal", another).start()
        assert "there is a cluster in this store already" in create(*store, "--journal", another)
        second = ("--store", f"file://{tmp_path}/second")
        assert "holds the slots of a cluster already" in create(*second, "--journal", database)
        assert create(*second, "--journal", another) == "", "a schema of its own is enough"
        with pytest.raises(BrokerDidNotStart, match="holds the slots of cluster"):
            node(*store, "--journal", another).start()
    finally:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("drop schema another cascade")
