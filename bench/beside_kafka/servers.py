"""What is measured: Semel as it is and compiled, Kafka as it is and with a sync per write."""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Protocol

import pytest
from peers.kafka_broker import Kafka

from bench import processes
from bench.figures import NotMeasured
from semel.testing import Broker

ROOT = Path(__file__).parent.parent.parent
COMPILED = ROOT / "build" / "compiled"


class Server(Protocol):
    """Its folder lives as long as its block, in which it can be killed and started again."""

    port: int

    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def process_id(self) -> int: ...

    def prepare(self) -> None:
        """What has to be done once before the first start."""

    def launch(self) -> None:
        """Begin to start it."""

    def kill(self) -> None:
        """As `kill -9` does."""

    def close(self) -> None:
        """End it if it runs, and remove its folder."""


class Semel(Broker):
    """With its defaults: acks=all is answered when the record is on disk."""

    def __init__(self, source: Path) -> None:
        self._own_folder = Path(tempfile.mkdtemp(prefix="semel-bench-"))
        super().__init__(data=self._own_folder, port=processes.free_port())
        self._environment = {"PYTHONPATH": str(source)}

    def prepare(self) -> None:
        pass

    def close(self) -> None:
        if self.is_running:
            self.kill()
        shutil.rmtree(self._own_folder)


class WarmKafka(Kafka):
    """With its defaults, and the Java options of its own start script."""

    JAVA_OPTIONS: ClassVar = (
        *("-Xms1G", "-Xmx1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
        *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
        "-Djava.awt.headless=true",
    )
    SETTINGS: ClassVar[Mapping[str, object]] = {}

    def prepare(self) -> None:
        self.format()

    def close(self) -> None:
        # Nobody needs what it would do before a clean end.
        if self._process is not None:
            self.kill()
        super().close()


SYNC_PER_WRITE: Mapping[str, object] = {"log.flush.interval.messages": 1}


def _kafka(settings: Mapping[str, object]) -> Server:
    try:
        return WarmKafka(settings)
    except pytest.skip.Exception as reason:
        raise NotMeasured(str(reason)) from None


def _compiled() -> Server:
    if not any((COMPILED / "semel").rglob("*.so")):
        raise NotMeasured(
            "build/compiled has no compiled Semel; where there is a C compiler, make fills it"
        )
    return Semel(COMPILED)


MAKERS: Mapping[str, Callable[[], Server]] = {
    "semel": lambda: Semel(ROOT / "src"),
    "semel_compiled": _compiled,
    "kafka": lambda: _kafka({}),
    "kafka_sync": lambda: _kafka(SYNC_PER_WRITE),
}
"""Each raises NotMeasured where that cannot be had."""
