"""Spark's servers on this machine, each a process of its own: master and workers, or Connect."""

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark

from semel.spark.java import find_java_home

_SPARK_HOME = Path(pyspark.__file__).parent
_TESTS = Path(__file__).parent.parent
_DEADLINE_S = 120


def with_tests_to_import() -> dict[str, str]:
    """The environment of a program that imports what tests share."""
    path = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


class _Server:
    """A process of Spark's, and what it says."""

    def __init__(self, *command: str) -> None:
        environment = {
            **os.environ,
            "JAVA_HOME": str(find_java_home()),
            "SPARK_HOME": str(_SPARK_HOME),
            "PYSPARK_PYTHON": sys.executable,
        }
        self._process = subprocess.Popen(
            [str(_SPARK_HOME / "bin" / "spark-class"), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._lines.put(line)
        self._lines.put(None)

    def wait_for(self, words: str) -> str:
        said = []
        while (line := self._lines.get(timeout=_DEADLINE_S)) is not None:
            said.append(line)
            if words in line:
                return line
        raise AssertionError(f"it ended without {words!r}: {''.join(said)}")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(_DEADLINE_S)
        # A server of Connect may leave processes of functions for each batch behind.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._listener.join()
        assert self._process.stderr is not None
        self._process.stderr.close()


@contextmanager
def connect_server(*settings: str) -> Iterator[str]:
    """The address of a Connect server, for clients of any process."""
    place = (
        "spark.driver.host=127.0.0.1",
        "spark.driver.bindAddress=127.0.0.1",
        "spark.ui.enabled=false",
        "spark.sql.shuffle.partitions=2",
        "spark.connect.grpc.binding.address=127.0.0.1",
        "spark.connect.grpc.binding.port=0",
    )
    server = _Server(
        "org.apache.spark.deploy.SparkSubmit",
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", "local[2]"),
        *(word for setting in (*place, *settings) for word in ("--conf", setting)),
    )
    try:
        line = server.wait_for("Spark Connect server started at:")
        yield f"sc://{line.rpartition(' ')[2].strip()}"
    finally:
        server.stop()


@contextmanager
def standalone(work_folder: Path, worker_count: int = 2) -> Iterator[str]:
    """The address of a master whose workers, with one core each, are registered."""
    deploy = "org.apache.spark.deploy"
    with ExitStack() as running:
        place = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = _Server(f"{deploy}.master.Master", *place)
        running.callback(master.stop)
        address = master.wait_for("Starting Spark master at").rpartition(" ")[2].strip()
        workers = []
        for number in range(worker_count):
            folder = ("--work-dir", str(work_folder / f"worker-{number}"))
            size = ("--cores", "1", "--memory", "1g")
            worker = _Server(f"{deploy}.worker.Worker", address, *place, *size, *folder)
            running.callback(worker.stop)
            workers.append(worker)
        for worker in workers:
            worker.wait_for("Successfully registered with master")
        yield address
