"""A real cluster of several processes: Spark's standalone master with two workers."""

import subprocess
import sys
from pathlib import Path

import pytest

from semel.testing import Broker
from spark import cluster_driver
from spark.cluster import standalone, with_tests_to_import
from support import topics

VALUES = [b"%05d" % number for number in range(2000)]


@pytest.mark.timeout(600)
def test_both_sinks_are_exact_on_two_workers_with_tasks_that_are_retried(tmp_path: Path) -> None:
    with Broker() as broker, standalone(tmp_path) as master:
        servers = broker.bootstrap_servers
        topics.create(servers, "orders", 4)
        for partition in range(4):
            topics.fill(servers, "orders", VALUES[partition::4], partition)
        for topic in ("copied", "volume"):
            topics.create(servers, topic, 4)
        done = subprocess.run(
            [sys.executable, cluster_driver.__file__, master, servers, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
            env=with_tests_to_import(),
        )
        assert done.returncode == 0, done.stderr
        assert topics.values(servers, "copied") == VALUES
        assert topics.values(servers, "volume") == VALUES
    assert (tmp_path / "default").exists()
    assert (tmp_path / "volume").exists()
    executors = set((tmp_path / "executors").read_text().split())
    assert len(executors) == 2, "both workers have worked"
