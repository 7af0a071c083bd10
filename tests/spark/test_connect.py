"""Spark Connect: both sinks at a server, told what to do by a client that has no JVM."""

import subprocess
import sys
from pathlib import Path

import confluent_kafka
import pytest

from semel.testing import Broker
from spark import connect_client, queries
from spark.cluster import connect_server, with_tests_to_import
from support import topics

VALUES = [b"%04d" % number for number in range(400)]
PREFIXES = {"copied": b"", "one": b"", "two": b"number "}


def run_client(address: str, broker: Broker, folder: Path) -> dict[str, str]:
    """The id of each query, and what became of the one that cannot know its batches."""
    command = [sys.executable, connect_client.__file__]
    done = subprocess.run(
        [*command, address, broker.bootstrap_servers, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=with_tests_to_import(),
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines())


def group_of(name: str, query_id: str) -> str:
    return f"semel-{query_id}" if name == "two" else f"semel-{name}-{query_id.partition('-')[0]}"


def consumed_by(servers: str, group: str) -> list[int]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": group, "log_level": 0}
    )
    places = [confluent_kafka.TopicPartition("orders", number) for number in range(2)]
    found = [place.offset for place in consumer.committed(places, 30)]
    consumer.close()
    return found


@pytest.mark.timeout(600)
def test_both_sinks_write_once_for_several_queries_of_one_session(tmp_path: Path) -> None:
    with Broker() as broker, connect_server() as address:
        servers = broker.bootstrap_servers
        topics.create(servers, "orders", 2)
        for partition in (0, 1):
            topics.fill(servers, "orders", VALUES[partition::2], partition)
        for topic in PREFIXES:
            topics.create(servers, topic, 3)
        first = run_client(address, broker, tmp_path)
        assert first.pop("saved") == "refused"
        assert len(set(first.values())) == len(PREFIXES)
        assert (tmp_path / "failed").exists()
        # As if the server had died before Spark noted the last batch as done.
        for name in PREFIXES:
            queries.forget_commits(tmp_path / name, 1)
        topics.fill(servers, "orders", [b"more"])
        assert run_client(address, broker, tmp_path) == first
        for name, prefix in PREFIXES.items():
            expected = sorted(prefix + value for value in [*VALUES, b"more"])
            assert topics.values(servers, name) == expected
            assert consumed_by(servers, group_of(name, first[name])) == [201, 200]
