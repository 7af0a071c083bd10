"""`semel.testing.Cluster`: one node leads, whatever is done to others, and nothing is left."""

import asyncio
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from semel.testing import Cluster
from support.raw_client import RawClient, fetched_values, produce_values

DEADLINE_S = 60

Deed = Callable[[Cluster, int], None]


def is_alive(process_id: int) -> bool:
    return Path(f"/proc/{process_id}").exists()


@pytest.fixture(scope="module")
def proxied() -> Iterator[Cluster]:
    with Cluster(proxied=True) as cluster:
        yield cluster


def values_at(cluster: Cluster, topic: str) -> list[bytes | None]:
    with RawClient(cluster[cluster.leader]) as client:
        return fetched_values(client, topic)


def test_the_nodes_of_the_fixture_share_one_log(semel_cluster: Cluster) -> None:
    assert list(semel_cluster.nodes) == [1, 2, 3]
    assert len(semel_cluster.bootstrap_servers.split(",")) == 3
    first = semel_cluster.leader
    with RawClient(semel_cluster[first]) as client:
        client.create_topic("t")
        produce_values(client, "t", [b"x"])
    semel_cluster.kill(first)
    second = semel_cluster.leader
    assert second != first
    semel_cluster.start(first)
    semel_cluster.restart(second)
    assert values_at(semel_cluster, "t") == [b"x"]


def hold(cluster: Cluster, node_id: int) -> None:
    cluster[node_id].network.hold()
    cluster[node_id].store_link.hold()


DEEDS: list[Deed] = [
    Cluster.kill,
    Cluster.stop,
    Cluster.freeze,
    Cluster.cut_off,
    Cluster.cut_off_from_store,
    hold,
]


def test_whoever_is_named_leads(semel_cluster: Cluster) -> None:
    for node_id in (2, 3, 1):
        semel_cluster.move(node_id)
        assert semel_cluster.leader == node_id


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
def test_another_leads_when_one_is_gone_and_that_one_is_welcome_again(
    proxied: Cluster, deed: Deed
) -> None:
    topic = f"t-{deed.__name__}"
    gone = proxied.leader
    with RawClient(proxied[gone]) as client:
        client.create_topic(topic)
        produce_values(client, topic, [b"1"])
    deed(proxied, gone)
    successor = proxied.leader
    assert successor != gone
    with RawClient(proxied[successor]) as client:
        produce_values(client, topic, [b"2"])
    proxied.mend()
    assert all(node.is_heard for node in proxied.nodes.values())
    assert values_at(proxied, topic) == [b"1", b"2"]


def test_the_store_fails_as_it_is_told_to(proxied: Cluster) -> None:
    before = proxied.weather(latency_s={"PUT": 0.001})["counts"]["PUT"]
    with RawClient(proxied[proxied.leader]) as client:
        client.create_topic("weather")
    assert proxied.weather(latency_s={})["counts"]["PUT"] > before


def test_a_single_node_is_a_cluster_too_also_within_a_running_loop() -> None:
    async def run() -> int:
        with Cluster(nodes=1) as cluster:
            return cluster.leader

    assert asyncio.run(run()) == 1


def test_nothing_is_left_when_a_test_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    processes: list[int] = []

    def run() -> None:
        with Cluster() as cluster:
            processes.extend(node.process_id for node in cluster.nodes.values())
            cluster.freeze(2)
            raise ValueError("as tests do")

    with pytest.raises(ValueError, match="as tests do"):
        run()
    assert len(processes) == 3
    assert not any(is_alive(process_id) for process_id in processes)
    assert list(tmp_path.iterdir()) == []


PROGRAM = """
from semel.testing import Cluster
with Cluster(nodes=2, proxied=True) as cluster:
    cluster.freeze(cluster.leader)
    print(*(node.process_id for node in cluster.nodes.values()), flush=True)
    input()
"""


def test_a_killed_owner_takes_all_along_also_who_is_frozen() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        nodes = [os.pidfd_open(int(number)) for number in owner.stdout.readline().split()]
        owner.kill()
    for node in nodes:
        ended, _, _ = select.select([node], [], [], DEADLINE_S)
        os.close(node)
        assert ended
