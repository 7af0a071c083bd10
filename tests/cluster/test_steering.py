"""The commands that steer a cluster, wherever its slots lie and however its store is reached."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from semel import Producer
from semel.testing import Cluster
from semel.testing.proxy import HOST


class Steered(NamedTuple):
    cluster: Cluster
    options: tuple[str, ...]
    environment: dict[str, str] | None

    def run(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        command = [sys.executable, "-m", "semel", "cluster", *arguments, "--json"]
        done = subprocess.run(
            [*command, "--store", self.cluster.store, *self.options],
            check=False,
            capture_output=True,
            text=True,
            env=self.environment,
        )
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)


def with_a_journal(folder: Path) -> Iterator[Steered]:
    journal = f"file://{folder / 'journal'}"
    with Cluster(store=f"file://{folder / 'store'}", journal=journal) as cluster:
        yield Steered(cluster, ("--journal", journal, "--ephemeral"), None)


def with_store_options(_: Path) -> Iterator[Steered]:
    with Cluster(proxied=True) as cluster:
        options = {
            "endpoint": f"http://{HOST}:{cluster._server_port}",
            "region": "us-east-1",
            "access_key_id": "test",
            "secret_access_key": "test",
        }
        named = [f"--store-option={name}={value}" for name, value in options.items()]
        yield Steered(cluster, tuple(named), {})


@pytest.mark.parametrize("begun", [with_a_journal, with_store_options])
def test_a_cluster_is_steered_wherever_it_lies(
    begun: Callable[[Path], Iterator[Steered]], tmp_path: Path
) -> None:
    for steered in begun(tmp_path):
        cluster = steered.cluster
        leader = cluster.leader
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        (made,) = admin.create_topics([NewTopic("t", 1)]).values()
        made.result(60)
        with Producer(servers) as producer:
            assert producer.send("t", b"first").result(60).offset == 0
        _, told = steered.run("status")
        assert told["leader"] == leader
        other = next(number for number in cluster.nodes if number != leader)
        assert steered.run("move", "--to", str(other))[1]["leader"] == other == cluster.leader
        code, rotated = steered.run("rotate-key")
        assert (code, rotated["unanswered"]) == (0, [])
        assert steered.run("drain", str(other))[1]["leader"] == cluster.leader != other
        assert steered.run("drain", str(other), "--undo") == (0, {"node": other, "drained": False})
        assert steered.run("upgrade")[1]["level"] >= 1
        # Who starts behind a new key knows it.
        cluster.restart(cluster.leader)
        _, told = steered.run("status")
        assert told["leader"] == cluster.leader
        with Producer(servers) as producer:
            assert producer.send("t", b"second").result(60).offset == 1
