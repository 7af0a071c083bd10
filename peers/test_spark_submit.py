"""`spark-submit` with a packed environment to a cluster of three, by the lines of the page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
from peers import submitted
from peers.registry import ROOT

from semel.spark.java import find_java_home
from semel.testing import Broker
from spark.cluster import standalone
from support import topics

VALUES = [b"%04d" % number for number in range(600)]
PARTITIONS = 6


def commands() -> list[str]:
    """Those of the page, with what a user has put in its place here."""
    shown: str
    (shown,) = (
        block
        for _, block in re.findall(r"^```(.*?)\n(.*?)^```", _page(), re.DOTALL | re.MULTILINE)
        if "spark-submit" in block
    )
    return shown.splitlines()


def _page() -> str:
    return (ROOT / "docs" / "pipelines.md").read_text()


def test_a_job_runs_in_the_environment_that_came_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    (folder / "seen").mkdir(parents=True)
    with Broker() as broker, standalone(tmp_path, worker_count=3) as master:
        servers = broker.bootstrap_servers
        topics.create(servers, "orders", PARTITIONS)
        for partition in range(PARTITIONS):
            topics.fill(servers, "orders", VALUES[partition::PARTITIONS], partition)
        for topic in ("default", "volume"):
            topics.create(servers, topic, PARTITIONS)
        job = f"{submitted.__file__} {servers} {folder}"
        script = "\n".join(commands())
        for word, meant in {
            "'.[arrow]'": f"'{ROOT}[arrow]'",
            "spark://master:7077": master,
            "job.py": job,
            "spark-submit ": f"{Path(pyspark.__file__).parent}/bin/spark-submit "
            "--conf spark.driver.host=127.0.0.1 --conf spark.driver.bindAddress=127.0.0.1 "
            "--conf spark.executor.memory=512m --conf spark.executor.cores=1 "
            "--conf spark.scheduler.minRegisteredResourcesRatio=1.0 ",
        }.items():
            assert word in script, word
            script = script.replace(word, meant)
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("PYSPARK_") and name != "PYTHONPATH"
        }
        done = subprocess.run(
            ["bash", "-ec", script],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env={
                **kept,
                "JAVA_HOME": str(find_java_home()),
                "PATH": f"{Path(sys.executable).resolve().parent}:{os.environ['PATH']}",
            },
        )
        assert done.returncode == 0, done.stderr
        assert topics.values(servers, "default") == VALUES
        assert topics.values(servers, "volume") == VALUES
    seen = [file.read_text().split() for file in (folder / "seen").iterdir()]
    assert len({cwd for cwd, _ in seen}) == 3, "all workers have worked"
    for cwd, prefix in seen:
        assert Path(prefix).resolve().is_relative_to(Path(cwd).resolve()), "the unpacked one"
