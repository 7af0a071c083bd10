"""What all clients of a run share, and the thread that each of them has."""

import threading
import traceback
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from semel.types import TopicPartition
from semel.verify.judging.operations import Any as Operation
from semel.verify.judging.operations import Recorder, Times
from semel.world import SystemClock

PLAIN: Final = "plain"
LEFT: Final = "left"
RIGHT: Final = "right"
PARTITION_COUNTS: Final = {PLAIN: 3, LEFT: 2, RIGHT: 1}
SENDS_PER_TURN: Final = 5
TURN_S: Final = 0.1
CLIENT_TIMEOUT_MS: Final = 2_000
"""Who has asked a frozen node waits as long as that before it asks another."""


class Scene(NamedTuple):
    servers: str
    recorder: Recorder
    clock: SystemClock
    stopping: threading.Event

    def now_s(self) -> float:
        return self.clock.monotonic_ms() / 1000

    def since(self, began_s: float) -> Times:
        return Times(began_s, self.now_s())

    def note(self, operation: Operation) -> None:
        self.recorder.note(operation)


class Hung(Exception):
    """A call of a library did not come back in its time, and far beyond."""


def within(limit_s: float, call: Callable[[], object]) -> None:
    """Raises Hung. Whoever runs a program whose library has hung starts it again."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for.
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        raise Hung
    if failures:
        raise failures[0]


class Client:
    """Takes its turns in a thread until it is told to stop. One that raises has failed for good."""

    is_first = False
    """Whether it writes what others need to begin."""
    is_quick = False
    """Whether it is served as soon as somebody leads; who is in a group waits for the others in it,
    and for those who have gone."""

    def __init__(self, name: str, scene: Scene, seed: int) -> None:
        self.name = name
        self.scene = scene
        self.random = Random(f"{seed} {name}")
        self.done_count = 0
        """Of what was done and told so: it grows as long as the client is served."""
        self.restarts = 0
        """How often it had to begin anew."""
        self.failure: str | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        """Whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def open(self) -> None:
        """Before the first turn."""

    def turn(self) -> None:
        """A moment's work."""
        raise NotImplementedError

    def close(self) -> None:
        """Behind the last turn; what is under way is finished."""

    def _run(self) -> None:
        try:
            self.open()
            while not self.scene.stopping.is_set():
                self.turn()
            self.close()
        except Exception:  # noqa: BLE001 - told at the end of the run.
            self.failure = traceback.format_exc()

    def pick(self, topics: tuple[str, ...]) -> TopicPartition:
        topic = self.random.choice(topics)
        return TopicPartition(topic, self.random.randrange(PARTITION_COUNTS[topic]))
