"""One run of the pipeline under attack: orders come in, processes die, results are counted."""

import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.demo.application import Application, Plan
from examples.demo.feed import Feed
from examples.demo.stage import Stage
from examples.demo.tally import Outcome, Tally, outcome
from examples.demo.topics import Topics
from examples.new_topics import create_topics
from semel.world import SystemClock

PARTITIONS = 4
ORDERS = 30_000
ORDERS_AHEAD = 12_000
"""How far the orders run ahead of the results."""
_PAUSE_S = 0.02


class Sample(NamedTuple):
    at_s: float
    orders_in: int
    results_out: int


class Kill(NamedTuple):
    at_s: float
    victim: str


class Story(NamedTuple):
    delivery: str
    samples: list[Sample]
    kills: list[Kill]
    starts: int
    outcome: Outcome


class Run:
    def __init__(
        self,
        delivery: str,
        folder: Path,
        console: Console,
        stage: Callable[[Path], AbstractContextManager[Stage]],
    ) -> None:
        """`stage` is set up in the folder."""
        self._stage = stage
        self._delivery = delivery
        self._folder = folder
        self._console = console
        self._topics = Topics(delivery)
        self._samples = [Sample(0, 0, 0)]
        self._kills: list[Kill] = []
        self._victims: deque[str] = deque()
        self._victim_count = 0
        self._armed_at: int | None = None
        self._began_ms = SystemClock().monotonic_ms()

    def tell(self) -> Story:
        self._folder.mkdir(parents=True)
        with self._stage(self._folder) as stage, self._progress() as progress:
            self._victims.extend(stage.victims)
            self._victim_count = len(stage.victims)
            servers = stage.bootstrap_servers
            create_topics(self._topics.all, servers, PARTITIONS)
            plan = Plan(self._delivery, servers, self._topics.prefix, self._folder)
            application = Application(plan)
            tally = Tally(self._topics, servers, PARTITIONS)
            try:
                self._watch(stage, application, tally, progress)
            finally:
                application.close()
                tally.close()
            return Story(
                self._delivery,
                self._samples,
                self._kills,
                application.starts,
                outcome(self._topics, servers),
            )

    def _watch(
        self, stage: Stage, application: Application, tally: Tally, progress: Progress
    ) -> None:
        feed = Feed(self._topics.orders, stage.bootstrap_servers, ORDERS)
        bar_in = progress.add_task("orders in", total=ORDERS)
        bar_out = progress.add_task("results out", total=ORDERS)
        is_finishing = False
        pause = threading.Event()
        while not application.has_finished():
            tally.update()
            feed.allow(tally.distinct + ORDERS_AHEAD)
            self._sample(feed.written, tally.results)
            progress.update(bar_in, completed=feed.written)
            progress.update(bar_out, completed=tally.results)
            self._strike(stage, application, tally)
            if tally.distinct == ORDERS:
                # Nothing is under way any more in which they could be struck.
                self._victims.clear()
            if feed.is_complete() and not self._victims and not is_finishing:
                application.finish()
                is_finishing = True
            pause.wait(_PAUSE_S)
        tally.update()
        self._sample(feed.written, tally.results)
        progress.update(bar_out, completed=tally.results)

    def _strike(self, stage: Stage, application: Application, tally: Tally) -> None:
        """Strike the next victim within a batch: as soon as something of it is in the log."""
        if not self._victims or tally.distinct < self._next_strike():
            return
        log_end = tally.log_end()
        if self._armed_at is None:
            self._armed_at = log_end
        if log_end == self._armed_at:
            return
        victim = self._victims.popleft()
        at_s = self._now_s()
        done = stage.strike(victim, application)
        self._kills.append(Kill(at_s, victim))
        self._console.print(f"  [red]{done}[/] after {tally.distinct:6,} orders, at {at_s:4.1f} s")
        self._armed_at = None

    def _next_strike(self) -> int:
        """Spread over the stream, with some orders before the first and behind the last."""
        done = self._victim_count - len(self._victims)
        return ORDERS * (done + 1) // (self._victim_count + 3)

    def _sample(self, orders_in: int, results_out: int) -> None:
        if self._samples[-1][1:] != (orders_in, results_out):
            self._samples.append(Sample(self._now_s(), orders_in, results_out))

    def _now_s(self) -> float:
        return (SystemClock().monotonic_ms() - self._began_ms) / 1000

    def _progress(self) -> Progress:
        return Progress(
            TextColumn("  {task.description:12}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
        )
