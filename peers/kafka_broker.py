"""Apache Kafka itself: one process that is controller and broker, and ends with its block."""

import asyncio
import contextlib
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from peers.registry import ROOT, jars

from semel.client.cluster.calls import retrying
from semel.client.cluster.cluster import Cluster
from semel.client.connecting.address import parse_bootstrap_servers

_START_MS_MAX = 90_000
_STOP_S_MAX = 60
_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"


class Kafka:
    """Has `bootstrap_servers` as `semel.testing.Broker` has; can be killed and started again."""

    JAVA_OPTIONS: ClassVar[Sequence[str]] = ("-Xmx512m",)
    SETTINGS: ClassVar[Mapping[str, object]] = {
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.num.partitions": 4,
        "group.initial.rebalance.delay.ms": 0,
        # Tests kill members, and wait until they are missed.
        "group.min.session.timeout.ms": 500,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
        # Tests write records of 1970.
        "log.retention.ms": -1,
    }
    """What tests need; others change both."""

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        self._more_settings = settings or {}
        self.jars = jars(ROOT / "peers" / "kafka")
        self._folder = Path(tempfile.mkdtemp(prefix="semel-peers-kafka-"))
        self.port, self._controller_port = _free_ports()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def process_id(self) -> int:
        assert self._process is not None, "Kafka is not running"
        return self._process.pid

    def __enter__(self) -> Self:
        try:
            self.format()
            self.launch()
            self.await_ready()
        except BaseException:
            self.close()
            raise
        return self

    def format(self) -> None:
        """Its folder, once, before it is started."""
        text = "".join(f"{key}={value}\n" for key, value in self._settings().items())
        self._properties.write_text(text)
        tool = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", self._properties]
        subprocess.run(self._java(*map(str, tool)), check=True, capture_output=True)

    def launch(self) -> None:
        """Begin to start it; `await_ready` may follow."""
        with (self._folder / "out").open("wb") as out:
            command = self._java("kafka.Kafka", str(self._properties))
            self._process = subprocess.Popen(command, stdout=out, stderr=out)

    def await_ready(self) -> None:
        asyncio.run(self._answering())

    def kill(self) -> None:
        """End it as `kill -9` does, at whatever it is doing."""
        assert self._process is not None, "Kafka is not running"
        self._process.kill()
        self._process.wait()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it if it runs, and remove its folder."""
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S_MAX)
            self.kill()
        shutil.rmtree(self._folder)

    @property
    def _properties(self) -> Path:
        return self._folder / "server.properties"

    def _java(self, *arguments: str) -> list[str]:
        return ["java", *self.JAVA_OPTIONS, "-cp", f"{self.jars}/*", *arguments]

    def _settings(self) -> Mapping[str, object]:
        listener = f"PLAINTEXT://127.0.0.1:{self.port}"
        controller = f"127.0.0.1:{self._controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{listener},CONTROLLER://{controller}",
            "advertised.listeners": listener,
            "log.dirs": self._folder / "data",
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            **self.SETTINGS,
            **self._more_settings,
        }

    async def _answering(self) -> None:
        """Wait until it takes part in its cluster."""

        async def attempt() -> None:
            assert self._process is not None
            said = (self._folder / "out").read_text
            assert self._process.poll() is None, f"Kafka ended: {said()}"
            async with Cluster(parse_bootstrap_servers(self.bootstrap_servers)) as cluster:
                await cluster.controller_id()

        await retrying(attempt, timeout_ms=_START_MS_MAX)


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as another:
        for each in (one, another):
            each.bind(("127.0.0.1", 0))
        return one.getsockname()[1], another.getsockname()[1]
