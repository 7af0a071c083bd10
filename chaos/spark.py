"""A Spark pipeline that copies a topic with an exactly-once sink, while nodes take over from each
other; whoever runs it starts it again when its driver ends.

    python -m chaos.spark SERVERS SOURCE TARGET CHECKPOINT

It reads until its standard input is closed, and ends when all of it is copied.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

from examples.demo.application import ROOT
from pyspark.sql.streaming.query import StreamingQuery

from chaos.scene import PLAIN, Client, Scene
from semel.client.cluster.blocking import ClientOptions, Connected
from semel.client.cluster.offsets import Isolation, ends_of
from semel.errors import SemelError
from semel.spark import session
from semel.types import TopicPartition

TARGET: Final = "spark-copies"
RECORDS_PER_BATCH: Final = 10_000
RESTARTS_MAX: Final = 50
END_S: Final = 600.0
"""It may have stayed behind, on a machine that is busy."""
LOOK_S: Final = 0.2
TIMEOUT_MS: Final = 10_000
"""Each of its processes waits as long as that for a node which says nothing, one after the other;
and as long for another to lead."""
# Started again and again, it is done sooner with a Java that compiles less.
JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class SparkPipeline(Client):
    """What it has done is told by the end of what it writes."""

    def __init__(self, name: str, scene: Scene, seed: int, folder: Path) -> None:
        super().__init__(name, scene, seed)
        self._connected = Connected(ClientOptions(scene.servers))
        self._folder = folder / "spark"
        self._log = folder / "spark.log"
        self._target = TopicPartition(TARGET, 0)
        self._driver: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        self._begin()

    def _begin(self) -> None:
        command = [sys.executable, "-m", "chaos.spark", self.scene.servers, PLAIN, TARGET]
        with self._log.open("a") as log:
            self._driver = subprocess.Popen(
                [*command, str(self._folder)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env={**os.environ, "JDK_JAVA_OPTIONS": JAVA_OPTIONS},
                start_new_session=True,
            )

    def turn(self) -> None:
        self.scene.stopping.wait(LOOK_S)
        assert self._driver is not None
        if self._driver.poll() is not None:
            self._restart()
        try:
            ends = ends_of(self._connected.cluster, [self._target], Isolation.READ_COMMITTED)
            self.done_count = self._connected.run(ends)[self._target]
        except SemelError:
            # Nobody could be asked for a while.
            return

    def _restart(self) -> None:
        self.restarts += 1
        if self.restarts > RESTARTS_MAX:
            raise RuntimeError(f"the driver ends again and again: {self._last_words()}")
        self._begin()

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-4_000:]

    def finish(self) -> None:
        """What is left, once nobody writes any more; what it does not do in time is missing."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            while self._code_when_ended():
                self._restart()

    def _code_when_ended(self) -> int:
        assert self._driver is not None
        assert self._driver.stdin is not None
        self._driver.stdin.close()
        return self._driver.wait(END_S)

    def drop(self) -> None:
        self._connected.close()
        if self._driver is not None and self._driver.poll() is None:
            os.killpg(self._driver.pid, signal.SIGKILL)
            self._driver.wait()


def main(servers: str, source: str, target: str, checkpoint: str) -> None:
    with session("local[2,4]", broker=servers) as spark:
        records = (
            spark.readStream.format("semel")
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", RECORDS_PER_BATCH)
            .option("kafka.request.timeout.ms", TIMEOUT_MS)
            .load()
        )
        query = (
            records.select("value")
            .writeStream.format("semel")
            .option("topic", target)
            .option("kafka.request.timeout.ms", TIMEOUT_MS)
            .option("checkpointLocation", checkpoint)
            .start()
        )
        finishing = threading.Thread(
            target=_finish_with_input, args=[query, os.getppid()], daemon=True
        )
        finishing.start()
        query.awaitTermination()
        finishing.join()


def _finish_with_input(query: StreamingQuery, parent_id: int) -> None:
    sys.stdin.read()
    if os.getppid() != parent_id:
        # Whoever runs it was killed, and what it reads from has ended too.
        os.killpg(0, signal.SIGKILL)
    query.processAllAvailable()
    query.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
