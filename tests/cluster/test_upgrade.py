"""A version that writes what the one before cannot read, made up: it does so only when it is told
that no node will go back, and all is well on the way there.

What is made up is a layout of frames, in a module that Python imports before Semel.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import semel
from semel import Producer
from semel.testing import Cluster

PATIENCE_S = 60.0
NEXT_VERSION = '''
"""Reads frames of layout 4, and writes them where the level is 4."""

import os

from semel.cluster import levels
from semel.lane import frame

levels.LEVELS = levels.Levels(1, 4)
layout = wanted = 4 if "UNGATED" in os.environ else 1
read_head, refuse_newer, pack_head = frame.read_head, frame.refuse_newer, frame.pack_head


def known(payload):
    return memoryview(bytes((1,)) + bytes(payload[1:])) if payload[:1] == bytes((4,)) else payload


frame.read_head = lambda payload, position: read_head(known(payload), position)
frame.refuse_newer = lambda payload, position: refuse_newer(known(payload), position)


def pack(_, *times):
    """What raises the level can be read by all, as who cannot go on has to be told why."""
    global layout
    packed = pack_head(layout, *times)
    layout = wanted
    return packed


frame.pack_head = pack

from semel.lane.state import LaneState


def is_level(state):
    return state.__dict__["level"]


def set_level(state, level):
    global wanted
    state.__dict__["level"] = level
    wanted = 4 if level >= 4 else wanted


LaneState.level = property(is_level, set_level)
'''


@pytest.fixture
def next_version(tmp_path: Path) -> dict[str, str]:
    """The environment in which Semel is of that version."""
    folder = tmp_path / "next-version"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(NEXT_VERSION)
    return {"PYTHONPATH": str(folder)}


def restart(cluster: Cluster, node_id: int, version: dict[str, str]) -> None:
    node = cluster[node_id]
    cluster.stop(node_id)
    node._environment = version
    cluster.start(node_id)


def steer(cluster: Cluster, version: dict[str, str], *arguments: str) -> dict[str, int]:
    """As that version does. A node that was just started may not have been heard of yet."""
    command = [sys.executable, "-m", "semel", "cluster", *arguments, "--store", cluster.store]
    until_s = time.monotonic() + PATIENCE_S
    while True:
        done = subprocess.run(
            [*command, "--ephemeral", "--json"],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, **version},
        )
        if done.returncode == 0:
            told: dict[str, int] = json.loads(done.stdout)
            return told
        assert time.monotonic() < until_s, done.stderr


def has_ended(cluster: Cluster, node_id: int) -> bool:
    child = cluster[node_id]._child
    return child is None or child._process.poll() is not None


def last_words(cluster: Cluster, node_id: int) -> str:
    """Of a node that ends by itself."""
    until_s = time.monotonic() + PATIENCE_S
    while not has_ended(cluster, node_id):
        assert time.monotonic() < until_s, f"node {node_id} goes on"
    child = cluster[node_id]._child
    assert child is not None
    return child.last_words()


def values_of(cluster: Cluster) -> list[int]:
    table = semel.read("t", bootstrap_servers=cluster.bootstrap_servers, columns=["value"])
    return [int(value) for value in table.column("value").to_pylist()]


def test_what_the_version_before_cannot_read_is_written_once_the_upgrade_is_final(
    next_version: dict[str, str],
) -> None:
    this_version: dict[str, str] = {}
    sent = 0
    with Cluster(nodes=3) as cluster, Producer(cluster.bootstrap_servers) as producer:

        def send() -> None:
            nonlocal sent
            for _ in range(10):
                producer.send("t", b"%d" % sent).result(PATIENCE_S)
                sent += 1

        send()
        # Everybody leads once beside those of the other version; and one goes back for a while.
        for node_id, version in (
            (1, next_version),
            (2, next_version),
            (1, this_version),
            (3, next_version),
            (1, next_version),
        ):
            restart(cluster, node_id, version)
            send()
            cluster.move(node_id)
            send()
            assert not any(has_ended(cluster, each) for each in cluster.nodes)
        assert steer(cluster, next_version, "upgrade") == {"level": 4}
        send()
        # What is written by now is read by whoever takes over, and starts.
        cluster.kill(cluster.leader)
        send()
        cluster.mend()
        assert values_of(cluster) == list(range(sent))
        restart(cluster, 1, this_version)
        assert "the cluster writes at level 4, and this version" in last_words(cluster, 1)


def test_without_the_level_the_version_before_could_not_live_beside_it(
    next_version: dict[str, str],
) -> None:
    with Cluster(nodes=2) as cluster, Producer(cluster.bootstrap_servers) as producer:
        producer.send("t", b"0").result(PATIENCE_S)
        restart(cluster, 1, {**next_version, "UNGATED": "1"})
        assert steer(cluster, next_version, "move", "--to", "1")["leader"] == 1
        assert "has layout 4, this Semel reads up to 3" in last_words(cluster, 2)
