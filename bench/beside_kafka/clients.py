"""The clients: programs that are told by a line what to do, and answer with what they measured."""

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import confluent_kafka
import pytest
from peers import registry

from bench.figures import NotMeasured

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 150
"""A client that is silent for longer is ended."""
LIBRDKAFKA_PROCESSES = 4
"""Python runs one thread at a time: several producers are spread over processes."""
JAVA_CLIENT = ROOT / "peers" / "java"


class Answer(NamedTuple):
    seconds: float
    """From "go" to the last answer that was waited for."""
    cpu_s: float
    records: int
    ms: tuple[float, ...]
    """How long each of what was done took."""


class Client:
    """One library, in one process or in several, which end when this is closed."""

    def __init__(self, name: str, version: str, command: Sequence[str], process_count: int) -> None:
        self.name = name
        self.version = version
        self._processes = [
            subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(process_count)
        ]

    def close(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.communicate()

    def measure(
        self, call: str, *, producers: int = 1, when_ready: Callable[[], None], **words: object
    ) -> Answer:
        """All processes that take part begin at once, when all are connected."""
        shares = [
            producers // len(self._processes) + (each < producers % len(self._processes))
            for each in range(len(self._processes))
        ]
        taking_part = [
            (process, share)
            for process, share in zip(self._processes, shares, strict=True)
            if share
        ]
        if "records_max" in words:
            words["records_max"] = int(str(words["records_max"])) // len(taking_part)
        with self._ended_if_silent():
            for index, (process, share) in enumerate(taking_part):
                own = {**words, "producers": share}
                if "name" in own:
                    own["name"] = f"{own['name']}-{index}-"
                rest = " ".join(f"{name}={value}" for name, value in own.items())
                _tell(process, f"{call} {rest}")
            for process, _ in taking_part:
                self._expect(process, "ready")
            when_ready()
            for process, _ in taking_part:
                _tell(process, "go")
            answers = [_answer(self._expect(process, "")) for process, _ in taking_part]
        return Answer(
            max(each.seconds for each in answers),
            sum(each.cpu_s for each in answers),
            sum(each.records for each in answers),
            tuple(ms for each in answers for ms in each.ms),
        )

    def _expect(self, process: subprocess.Popen[str], begin: str) -> str:
        line = _pipe(process.stdout).readline().strip()
        if not line or line.startswith("error") or not line.startswith(begin):
            raise RuntimeError(f"{self.name}: {line or 'ended, or was silent for too long'}")
        return line

    @contextmanager
    def _ended_if_silent(self) -> Iterator[None]:
        def end() -> None:
            for process in self._processes:
                process.kill()

        timer = threading.Timer(PATIENCE_S, end)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def librdkafka() -> Client:
    command = [sys.executable, "-m", "bench.beside_kafka.librdkafka"]
    version = f"librdkafka {confluent_kafka.libversion()[0]}"
    version += f" (confluent-kafka {confluent_kafka.__version__})"
    return Client("librdkafka", version, command, LIBRDKAFKA_PROCESSES)


def java() -> Client:
    """Raises NotMeasured where it is not to be had."""
    try:
        jars = registry.jars(JAVA_CLIENT)
        classes = registry.java_classes(Path(__file__).parent / "Load.java", jars)
    except pytest.skip.Exception as reason:
        raise NotMeasured(str(reason)) from None
    command = ["java", "-Xms512m", "-Xmx512m", "-cp", f"{classes}:{jars}/*", "Load"]
    return Client("java", f"Java client {version_of(jars, 'kafka-clients')}", command, 1)


def version_of(jars: Path, name: str) -> str:
    (file,) = jars.glob(f"{name}-[0-9]*.jar")
    return file.stem.removeprefix(f"{name}-")


@contextmanager
def all_clients() -> Iterator[tuple[list[Client], list[str]]]:
    """Those that can be had, and why others cannot."""
    clients: list[Client] = []
    left_out: list[str] = []
    with ExitStack() as stack:
        for name, made in (("librdkafka", librdkafka), ("the Java client", java)):
            try:
                client = made()
            except NotMeasured as reason:
                left_out.append(f"{name}: {reason}")
                continue
            stack.callback(client.close)
            clients.append(client)
        yield clients, left_out


def _tell(process: subprocess.Popen[str], line: str) -> None:
    pipe = _pipe(process.stdin)
    pipe.write(f"{line}\n")
    pipe.flush()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def _answer(line: str) -> Answer:
    words = dict(re.findall(r"(\w+)=(\S*)", line))
    ms = tuple(map(float, filter(None, words.get("ms", "").split(","))))
    return Answer(float(words["seconds"]), float(words["cpu_s"]), int(words.get("records", 0)), ms)
