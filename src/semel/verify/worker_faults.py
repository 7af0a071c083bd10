"""What goes wrong with workers on one machine, and when: by seed, and more than once."""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

from semel.verify.history import Began, CommitSent, History, WriteAcknowledged
from semel.verify.workloads.population import Population
from semel.verify.world.network import Network
from semel.verify.world.troubled_calls import MOODS
from semel.verify.world.workers import Workers

FREEZES_S = (0.05, 0.4, 1.5)


class WorkerFaults:
    def __init__(
        self,
        seed: int,
        workers: Workers,
        network: Network,
        population: Population,
        history: History,
        pause_s_mean: float,
    ) -> None:
        self._rng = Random(f"faults {seed}")
        self._workers = workers
        self._history = history
        self._pause_s_mean = pause_s_mean
        self.counts: Counter[str] = Counter()
        workers.call_chances = self._rng.choice(MOODS)
        kinds: dict[str, tuple[int, Callable[[], None]]] = {
            "lost connections": (6, network.lose_one),
            "lost connections of workers": (4, lambda: workers.lose_line(self._rng)),
            "dead clients": (3, population.kill_one),
            "rivals": (6, population.rival_one),
            "kills": (6, lambda: workers.kill(self._lane())),
            "kills in a blocking call": (3, self._kill_in_a_call),
            "kills in a transaction": (8, self._kill_in_a_transaction),
            "power losses of one lane": (3, lambda: workers.lose_power_of(self._lane())),
            "power losses in a sync": (5, self._lose_power_in_a_sync),
            "power losses in a transaction": (10, self._lose_power_in_a_transaction),
            "power losses": (1, workers.lose_power),
            "failed syncs": (1, self._fail_sync),
            "failed writes": (1, self._fail_write),
            "full disks": (1, self._fill_disk),
            "freezes": (3, lambda: workers.freeze(self._lane(), self._rng.choice(FREEZES_S))),
        }
        chosen = self._rng.sample(sorted(kinds), self._rng.randint(4, len(kinds)))
        self._kinds = {name: kinds[name] for name in chosen}

    async def run(self, until_s: float) -> None:
        loop = asyncio.get_running_loop()
        names = list(self._kinds)
        weights = [self._kinds[name][0] for name in names]
        while loop.time() < until_s:
            await asyncio.sleep(self._rng.expovariate(1 / self._pause_s_mean))
            (name,) = self._rng.choices(names, weights)
            self.counts[name] += 1
            self._kinds[name][1]()
        self._history.await_nothing()
        self._workers.heal()

    def _lane(self) -> int:
        return self._rng.randrange(self._workers.lane_count)

    def _kill_in_a_call(self) -> None:
        self._workers.disks[self._lane()].calls_left = self._rng.choice((0, 1, 3, 10, 30))

    def _kill_in_a_transaction(self) -> None:
        lane, delay_s = self._lane(), self._rng.choice((0.0, 0.002, 0.02))
        step: type[WriteAcknowledged | CommitSent]
        step = self._rng.choice((WriteAcknowledged, CommitSent))
        self._history.when_next(step, lambda: self._workers.kill_in(delay_s, lane))

    def _lose_power_in_a_sync(self) -> None:
        self._workers.lose_power_in_a_sync(self._lane(), self._rng.choice((0.001, 0.01, 0.1, 0.5)))

    def _lose_power_in_a_transaction(self) -> None:
        """With writes that were acknowledged and are not durable."""
        lane, delay_s = self._lane(), self._rng.choice((0.005, 0.03, 0.1))
        step: type[Began | WriteAcknowledged | CommitSent]
        step = self._rng.choice((Began, WriteAcknowledged, CommitSent))
        self._history.when_next(step, lambda: self._workers.lose_power_in_a_sync(lane, delay_s))

    def _fail_sync(self) -> None:
        self._workers.disks[self._lane()].fails_next_sync = True

    def _fail_write(self) -> None:
        self._workers.disks[self._lane()].fails_next_write = True

    def _fill_disk(self) -> None:
        disk = self._workers.disks[self._lane()]
        disk.is_full = not disk.is_full
