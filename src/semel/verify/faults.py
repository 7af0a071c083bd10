"""What goes wrong in a run, and when: by seed, and more than once."""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

from semel.verify.history import Began, CommitSent, History, MayBeGone, WriteAcknowledged
from semel.verify.workloads.population import Population
from semel.verify.workloads.workload import Ordeal
from semel.verify.world.machine import Machine, Step
from semel.verify.world.network import Network

JUMPS_MS = (300, 2_000, 3_600_000, 2 * 86_400_000, 10 * 365 * 86_400_000)
"""The clock is set by one of these, ahead or back."""
SMALL_JUMPS_MS = (100, 300)
FREEZES_S = (0.05, 0.4, 1.5, 6.0)


class Faults:
    def __init__(
        self,
        seed: int,
        machine: Machine,
        network: Network,
        population: Population,
        history: History,
        ordeal: Ordeal,
    ) -> None:
        self._history = history
        self._ordeal = ordeal
        self._rng = Random(f"faults {seed}")
        self._machine = machine
        self._network = network
        self.counts: Counter[str] = Counter()
        kinds: dict[str, tuple[int, Callable[[], None]]] = {
            "lost connections": (8, network.lose_one),
            "dead clients": (4, population.kill_one),
            "kills": (3, machine.kill),
            "kills in a blocking call": (2, self._kill_in_a_call),
            "power losses": (1, machine.lose_power),
            "power losses in a sync": (4, self._lose_power_in_a_sync),
            "power losses at a checkpoint": (2, self._lose_power_at_a_checkpoint),
            "failed syncs": (1, self._fail_sync),
            "failed writes": (1, self._fail_write),
            "full disks": (1, self._fill_disk),
            "stops": (1, self._stop),
        }
        if population.rivalled:
            kinds["rivals"] = (6, population.rival_one)
            kinds["power losses in a transaction"] = (8, self._lose_power_in_a_transaction)
            kinds["kills in a transaction"] = (3, self._kill_in_a_transaction)
        chosen = ordeal.faults or self._rng.sample(sorted(kinds), self._rng.randint(3, len(kinds)))
        # Left to a run of their own, since they dilute what the others are there to find.
        kinds["clock jumps"] = (5, self._set_clock)
        kinds["freezes"] = (1, self._freeze)
        kinds["small clock jumps"] = (1, self._set_clock_a_little)
        kinds["deaths while settling"] = (4, self._die_while_settling)
        kinds["deaths at a removal"] = (6, self._die_at_a_removal)
        kinds["hangs while settling"] = (6, self._hang_in_a_sync_while_settling)
        kinds["hangs at a fact"] = (6, self._hang_at_a_fact)
        kinds["hangs at a deletion"] = (6, self._hang_at_a_deletion)
        kinds["hangs in a sync"] = (2, self._hang_in_a_sync)
        kinds["lost checkpoints"] = (3, machine.lose_a_checkpoint)
        self._kinds = {name: kinds[name] for name in chosen}
        self._wants_stop = False

    async def run(self, until_s: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < until_s:
            await asyncio.sleep(self._rng.expovariate(1 / self._ordeal.pause_s_mean))
            names = list(self._kinds)
            weights = [self._kinds[name][0] for name in names]
            (name,) = self._rng.choices(names, weights)
            self.counts[name] += 1
            self._kinds[name][1]()
            if self._wants_stop:
                self._wants_stop = False
                await self._machine.stop()
        self.heal()

    def heal(self) -> None:
        """From here on nothing goes wrong any more."""
        device = self._machine.device
        device.is_full = False
        device.fails_next_sync = False
        device.fails_next_write = False
        device.calls_left = None
        device.on_next_sync = None
        device.on_next_checkpoint = None
        device.on_step = None
        self._history.await_nothing()
        self._machine.thaw()

    def _kill_in_a_call(self) -> None:
        self._machine.device.calls_left = self._rng.choice((0, 1, 3, 10, 30))

    def _lose_power_in_a_sync(self) -> None:
        self._machine.lose_power_in_a_sync(self._rng.choice((0.001, 0.01, 0.1)))

    def _lose_power_in_a_transaction(self) -> None:
        """With writes that were acknowledged and are not durable."""
        delay_s = self._rng.choice((0.005, 0.03, 0.1))
        step: type[Began | WriteAcknowledged | CommitSent]
        step = self._rng.choice((Began, WriteAcknowledged, CommitSent))
        self._history.when_next(step, lambda: self._machine.lose_power_in_a_sync(delay_s))

    def _kill_in_a_transaction(self) -> None:
        self._history.when_next(
            WriteAcknowledged, lambda: self._machine.kill_in(self._rng.choice((0.0, 0.002)))
        )

    def _lose_power_at_a_checkpoint(self) -> None:
        self._machine.lose_power_at_a_checkpoint(self._rng.choice((0.0005, 0.005)))

    def _fail_sync(self) -> None:
        self._machine.device.fails_next_sync = True

    def _fail_write(self) -> None:
        self._machine.device.fails_next_write = True

    def _fill_disk(self) -> None:
        self._machine.device.is_full = not self._machine.device.is_full

    def _set_clock(self) -> None:
        self._machine.set_clock(self._rng.choice((1, -1)) * self._rng.choice(JUMPS_MS))

    def _set_clock_a_little(self) -> None:
        self._machine.set_clock(self._rng.choice((1, -1)) * self._rng.choice(SMALL_JUMPS_MS))

    def _die_while_settling(self) -> None:
        self._machine.die_while_settling(
            self._rng.randint(1, 16),
            self._rng.choice((0.0, 0.0005, 0.003, 0.03)),
            self._machine.lose_power if self._rng.random() < 0.7 else self._machine.kill,
        )

    def _die_at_a_removal(self) -> None:
        """Perhaps the newest checkpoint is lost too: the other may miss what was removed."""
        machine = self._machine
        machine.die_while_settling(
            self._rng.randint(1, 4),
            self._rng.choice((0.0, 0.0005, 0.003)),
            self._rng.choice((machine.kill, machine.lose_power, machine.lose_a_checkpoint)),
            counted=Step.REMOVAL,
        )

    def _hang_in_a_sync_while_settling(self) -> None:
        """What is decided from then on is done and never durable."""
        self._machine.hang_while_settling(
            self._rng.randint(1, 16), self._rng.choice((0.02, 0.1, 0.4))
        )

    def _hang_at_a_fact(self) -> None:
        """That a volume is there is said, and never durable."""
        self._machine.hang_while_settling(
            1, self._rng.choice((0.1, 0.4, 0.8)), counted=Step.LAST_NAME
        )

    def _hang_at_a_deletion(self) -> None:
        """Long enough that a round of retention finds what is deleted."""
        delay_s = self._rng.choice((0.6, 1.2))
        self._history.when_next(MayBeGone, lambda: self._machine.lose_power_in_a_sync(delay_s))

    def _hang_in_a_sync(self) -> None:
        self._machine.lose_power_in_a_sync(self._rng.choice((0.3, 0.8)))

    def _freeze(self) -> None:
        self._machine.freeze(self._rng.choice(FREEZES_S))

    def _stop(self) -> None:
        self._wants_stop = True
