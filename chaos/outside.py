"""Clients in other languages: programs of their own, that print what they were told, as operations
of a history, until their input ends."""

import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from peers.registry import ROOT, go_program, jars, java_classes

from chaos.scene import Client, Scene
from semel.verify.judging import operations
from semel.verify.judging.operations import End, Known, Send

FAILURE: Final = "! "
END_S: Final = 70.0
"""Longer than programs wait for what they have begun."""


class Program(NamedTuple):
    """What has to be started, and the clients that it is made of, with their topics and groups."""

    name: str
    command: tuple[str, ...]
    clients: tuple[str, ...]
    group: str
    target: str


def java() -> Program:
    """Raises pytest's Skipped, with the reason, where it cannot be had."""
    needed = jars(ROOT / "peers" / "java")
    classes = java_classes(ROOT / "chaos" / "java" / "Chaos.java", needed)
    command = ("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    return Program(
        "java",
        (*command, "-cp", f"{classes}:{needed}/*", "Chaos"),
        ("java-idempotent", "java-transactional", "java-copier"),
        "java-copiers",
        "java-copies",
    )


def franz_go() -> Program:
    """Raises pytest's Skipped, with the reason, where it cannot be had."""
    return Program(
        "franz-go",
        (str(go_program(ROOT / "chaos" / "go")),),
        ("franz-idempotent", "franz-transactional", "franz-copier"),
        "franz-copiers",
        "franz-copies",
    )


class Running:
    """A program that was started, and what it says."""

    def __init__(self, program: Program, scene: Scene, seed: int, folder: Path) -> None:
        self.program = program
        self.done: Counter[str] = Counter()
        """Of what was done and told so, by client."""
        self.failures: list[str] = []
        self.fatal: list[str] = []
        self._scene = scene
        self._command = [*program.command, scene.servers, str(seed)]
        self._complaints = folder / f"{program.name}.log"

    def start(self) -> None:
        with self._complaints.open("wb") as complaints:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints
            )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Let it finish what it has begun; who does not is killed, and that is a failure."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            self.failures.append(f"{self.program.name} does not end")
        else:
            if code:
                self.failures.append(f"{self.program.name} ended with {code}: {self._last_words()}")
        self._thread.join(END_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _last_words(self) -> str:
        return self._complaints.read_text(errors="replace")[-2_000:]

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(FAILURE.encode()):
                self.failures.append(line.decode().strip())
                continue
            operation = operations.decode(line)
            self._scene.note(operation)
            self._count(operation)

    def _count(self, operation: operations.Any) -> None:
        match operation:
            case Send(transaction=None, known=Known.OK) | End(known=Known.OK):
                self.done[_client(operation.process)] += 1
            case End(known=Known.UNKNOWN):
                self.fatal.append(operation.transaction)
            case _:
                pass


def _client(process: str) -> str:
    """Each life of a client is a process."""
    return process.partition(".")[0]


class OutsideClient(Client):
    """One of the clients of a program, as the others of the run are seen."""

    def __init__(self, name: str, running: Running, scene: Scene, seed: int) -> None:
        super().__init__(name, scene, seed)
        self._running = running

    def turn(self) -> None:
        self.scene.stopping.wait(0.02)
        self.done_count = self._running.done[self.name]
        if self._running.failures:
            raise Unwelcome(self._running.failures[0])


class FirstOfProgram(OutsideClient):
    """Starts the program for all of them, and ends it."""

    @property
    def fatal(self) -> list[str]:
        return self._running.fatal

    def open(self) -> None:
        self._running.start()

    def turn(self) -> None:
        try:
            super().turn()
        except Unwelcome:
            self._running.kill()
            raise

    def close(self) -> None:
        self._running.end()
        if self._running.failures:
            raise Unwelcome(self._running.failures[0])


class Unwelcome(Exception):
    """A client was told what it should never hear."""


def clients_of(
    programs: Sequence[Program], scene: Scene, seed: int, folder: Path
) -> Iterator[OutsideClient]:
    for program in programs:
        running = Running(program, scene, seed, folder)
        for number, name in enumerate(program.clients):
            kind = OutsideClient if number else FirstOfProgram
            yield kind(name, running, scene, seed)
