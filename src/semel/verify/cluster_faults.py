"""What goes wrong with nodes that share a store, and when: by seed, and several things at once."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random
from typing import Any

from semel.store.in_memory import BAD_DAY, Chances
from semel.verify.history import CommitSent, History, WriteAcknowledged
from semel.verify.slot_faults import SlotFaults
from semel.verify.workloads.population import Population
from semel.verify.workloads.workload import Workload
from semel.verify.world.cluster import TIMING, Cluster, SimulatedNode
from semel.verify.world.network import Network, Wire
from semel.verify.world.troubled_calls import LATE, QUIET
from semel.verify.world.troubled_calls import MOODS as CALL_MOODS

PEACE = Chances(latency_s_mean=0.004)
UNHEARD = Chances(unanswered=1.0, latency_s_mean=0.03)
SLOW = replace(BAD_DAY, latency_s_mean=0.8)
BUSY = replace(BAD_DAY, throttled=0.6)
PATIENCE_S = 60.0
STRAY_SHARE = 0.15
"""Of what befalls a node: it need not be the leader."""
MILD = Chances(0.004, 0.004, 0.004, 0.004, 0.004, latency_s_mean=0.02)
REORDERING = Chances(late=0.03, doubled=0.06, latency_s_mean=0.03)
MOODS = (MILD, MILD, MILD, REORDERING, BAD_DAY)
"""What a run's store does by itself: on a bad day little is committed, as every tenth request of a
node fails."""
MOODS_OF_LANES = (*MOODS, MILD, MILD, MILD)
"""What takes several lanes takes longer, and fails more often."""


class ClusterFaults:
    def __init__(
        self,
        seed: int,
        cluster: Cluster,
        network: Network,
        population: Population,
        workload: Workload,
        history: History,
        pause_s_mean: float = 1.0,
    ) -> None:
        self.rng = Random(f"faults {seed}")
        self._cluster = cluster
        self._network = network
        self.population = population
        self.workload = workload
        self.history = history
        self._pause_s_mean = pause_s_mean
        self.counts: Counter[str] = Counter()
        slots = SlotFaults(self, cluster)
        self._call_mood = self.rng.choice(CALL_MOODS) if cluster.lane_count > 1 else QUIET
        self._kinds: dict[str, tuple[int, Callable[[], Coroutine[Any, Any, None]]]] = {
            "kills": (6, self._kill),
            "kills in a transaction": (4, self._kill_in_a_transaction),
            "freezes": (3, self._freeze),
            "freezes until another leads": (16, self._freeze_for_long),
            "cuts from the store": (7, self._cut),
            "unheard by a node": (3, self._unheard),
            "slow ways to the store": (2, self._slow),
            "expired credentials": (1, self._expire),
            "holes": (6, slots.leave_a_hole),
            "usurpers": (10, slots.usurp),
            "sleeps before a fence": (9, slots.sleep_before_fence),
            "sleeps while slots go": (6, slots.sleep_while_slots_go),
            "stops": (22, self._stop),
            "rolling restarts": (1, self._roll),
            "outages": (2, self._outage),
            "full or read-only stores": (1, self._refuse),
            "throttling": (1, self._throttle),
            "lost connections": (4, self._lose_connection),
            "dead clients": (2, self._kill_client),
            "rivals": (2, self._rival),
        }
        if cluster.lane_count == 1:
            self._kinds["usurpers"] = (16, slots.usurp)
            self._kinds["questions to a zombie"] = (8, slots.question_a_zombie)
            self._kinds["late entries"] = (10, slots.land_late)
            self._kinds["volumes stored unheard"] = (7, slots.store_volumes_unheard)
        else:
            self._kinds["moves"] = (20, self._move)
            self._kinds["moves from one that nobody reaches"] = (30, self._move_from_one_alone)
            self._kinds["nodes that nobody reaches"] = (5, self._part)
            self._kinds["lost connections of nodes"] = (6, self._lose_line)
            cluster.call_chances = self._call_mood
        self._mood = self.rng.choice(MOODS if cluster.lane_count == 1 else MOODS_OF_LANES)
        self._calm_count = 0
        """Who sleeps until others have done some work."""
        cluster.set_chances(self._mood)

    async def run(self, until_s: float) -> None:
        loop = asyncio.get_running_loop()
        names = list(self._kinds)
        weights = [self._kinds[name][0] for name in names]
        async with asyncio.TaskGroup() as under_way:
            while loop.time() < until_s:
                await asyncio.sleep(self.rng.expovariate(1 / self._pause_s_mean))
                (name,) = self.rng.choices(names, weights)
                if self._calm_count:
                    continue
                self.counts[name] += 1
                under_way.create_task(self._kinds[name][1]())
        self.history.await_nothing()
        self._cluster.heal()

    async def lasts(self, longest: float) -> None:
        """For some part of so many detection times."""
        await asyncio.sleep(self.rng.uniform(0.1, longest) * TIMING.detection_s)

    def some_lane(self) -> int:
        count = self._cluster.lane_count
        return self.rng.randrange(count) if count > 1 else 0

    async def victim(self, lane: int | None = None) -> SimulatedNode | None:
        """As a rule the leader of the lane, once there is one; whom nothing has befallen yet."""
        cluster = self._cluster
        if lane is None:
            lane = self.some_lane()
        node: SimulatedNode | None = None
        if self.rng.random() < STRAY_SHARE:
            node = self.rng.choice(list(cluster.nodes.values()))
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(3 * TIMING.detection_s):
                    await cluster.serving(lane)
                    node = cluster.leader_of(lane)
        if node is None or not node.is_alive or node.is_in_trouble:
            return None
        node.is_in_trouble = True
        return node

    # Of one node

    async def _kill(self) -> None:
        node = await self.victim()
        if node is not None:
            self._cluster.kill(node)
            await self.lasts(2.5)
            self.start_again(node)

    async def _kill_in_a_transaction(self) -> None:
        """With writes that were acknowledged and are not durable."""
        node = await self.victim()
        if node is None:
            return
        delay_s = self.rng.choice((0.0, 0.005, 0.03))
        step: type[WriteAcknowledged | CommitSent]
        step = self.rng.choice((WriteAcknowledged, CommitSent))
        met = asyncio.Event()
        self.history.when_next(step, met.set)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * TIMING.detection_s):
                await met.wait()
        await asyncio.sleep(delay_s)
        self._cluster.kill(node)
        await self.lasts(2.5)
        self.start_again(node)

    def start_again(self, node: SimulatedNode) -> None:
        if self._cluster.nodes[node.node_id] is node:
            self._cluster.start(node.node_id)

    async def _freeze(self) -> None:
        node = await self.victim()
        if node is not None:
            node.freeze(PATIENCE_S)
            await self.lasts(2)
            node.thaw()
            node.is_in_trouble = False

    async def _freeze_for_long(self) -> None:
        """It wakes up as a zombie, with what it was asked meanwhile, and may fall asleep again."""
        lane = self.some_lane()
        node = await self.victim(lane)
        if node is None:
            return
        seen = self._cluster.bucket.lanes[lane]
        for _ in range(self.rng.choice((1, 1, 2))):
            epoch = seen.epoch
            node.freeze(PATIENCE_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5 * TIMING.detection_s):
                    while seen.epoch == epoch:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                    await self._cluster.serving(lane)
                    await self.lasts(2.5)
            node.thaw()
            await asyncio.sleep(self.rng.choice((0.001, 0.01, 0.1)))
        node.is_in_trouble = False

    async def until(self, is_so: Callable[[], bool], longest_s: float) -> bool:
        # Nothing tells of it; simulated time takes none.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                while not is_so():  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
        return is_so()

    def begin_peace(self) -> None:
        """Nothing else goes wrong for a while."""
        self._calm_count += 1
        self._cluster.set_chances(PEACE)

    def end_peace(self) -> None:
        self._calm_count -= 1
        if not self._calm_count:
            self._cluster.set_chances(self._mood)

    # Of several lanes

    async def _move(self) -> None:
        """By hand, from one who lives to another."""
        lane = self.some_lane()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TIMING.detection_s):
                await self._cluster.serving(0, lane)
        self._place_elsewhere(lane)

    def _place_elsewhere(self, lane: int) -> bool:
        """Whether somebody is there to say so."""
        cluster = self._cluster
        controller, leader = cluster.leader_of(0), cluster.leader_of(lane)
        others = [each for each in cluster.nodes.values() if each.is_alive and each is not leader]
        if controller is None or controller.is_frozen or not others:
            return False
        controller.order_move(lane, self.rng.choice(others))
        return True

    async def _move_from_one_alone(self) -> None:
        """Who cannot be asked to let go does so when it finds the fence of its successor."""
        cluster = self._cluster
        found = self._led_by_another_than_the_controller()
        if found is None:
            return
        lane, node = found
        node.is_in_trouble = True
        seen = cluster.bucket.lanes[lane]
        epoch = seen.epoch
        silenced = cluster.part(node)
        is_fenced = self._place_elsewhere(lane) and await self.until(
            lambda: seen.epoch > epoch, 3 * TIMING.detection_s
        )
        if is_fenced and self.rng.random() < 0.8:
            await self._serve_as_zombie(node, lane, silenced)
        else:
            await self.lasts(0.5)
        node.is_alone = node.is_in_trouble = False

    def _led_by_another_than_the_controller(self) -> tuple[int, SimulatedNode] | None:
        """A lane other than 0 whose leader is well; who places itself would hear of it."""
        cluster, controller = self._cluster, self._cluster.leader_of(0)
        found = [
            (lane, leader)
            for lane in range(1, cluster.lane_count)
            if (leader := cluster.leader_of(lane)) is not None
            and leader is not controller
            and not leader.is_in_trouble
        ]
        return self.rng.choice(found) if found else None

    async def _serve_as_zombie(self, node: SimulatedNode, lane: int, silenced: list[Wire]) -> None:
        """The store does not tell it that it was fenced, and others ask it what they would ask its
        successor."""
        cluster = self._cluster
        node.store.is_unheard_of = lambda at: at.lane == lane
        cluster.rejoin(node, silenced)
        cluster.call_chances = LATE
        # Until it steps down, as nothing proves to it that it leads.
        await self.until(lambda: node not in cluster.zombies_of(lane), 1.2 * TIMING.detection_s)
        cluster.call_chances = self._call_mood
        node.store.is_unheard_of = lambda at: False

    async def _part(self) -> None:
        node = await self.victim()
        if node is not None:
            self._cluster.part(node)
            await self.lasts(2)
            node.is_alone = node.is_in_trouble = False

    async def _lose_line(self) -> None:
        self._cluster.lose_line(self.rng)

    async def _cut(self) -> None:
        node = await self.victim()
        if node is not None:
            node.store.is_cut = True
            await self.lasts(3)
            node.store.is_cut = False
            node.is_in_trouble = False

    async def _unheard(self) -> None:
        """What it asks for is done, and it is not told."""
        await self._with_chances(UNHEARD, 2)

    async def _slow(self) -> None:
        await self._with_chances(SLOW, 4)

    async def _with_chances(self, chances: Chances, longest: float) -> None:
        node = await self.victim()
        if node is not None:
            node.store.chances = chances
            await self.lasts(longest)
            node.store.chances = self._cluster.chances
            node.is_in_trouble = False

    async def _expire(self) -> None:
        node = await self.victim()
        if node is not None:
            node.store.has_expired = True
            await self.lasts(3)
            node.store.has_expired = False
            node.is_in_trouble = False

    async def _stop(self) -> None:
        node = await self.victim()
        if node is not None:
            await self._cluster.stop_node(node)
            await self.lasts(1)
            self.start_again(node)

    async def _roll(self) -> None:
        """All of them, one after the other."""
        for node_id in sorted(self._cluster.nodes):
            node = self._cluster.nodes[node_id]
            if node.is_in_trouble or not node.is_alive:
                continue
            node.is_in_trouble = True
            await self._cluster.stop_node(node)
            await asyncio.sleep(0.1 * TIMING.detection_s)
            self.start_again(node)
            await asyncio.sleep(0.4 * TIMING.detection_s)

    # Of the store

    async def _outage(self) -> None:
        bucket = self._cluster.bucket
        if not bucket.is_away:
            bucket.is_away = True
            await self.lasts(3)
            bucket.is_away = False

    async def _refuse(self) -> None:
        bucket = self._cluster.bucket
        what = self.rng.choice(("is_full", "is_read_only"))
        setattr(bucket, what, True)
        await self.lasts(2)
        setattr(bucket, what, False)

    async def _throttle(self) -> None:
        if self._cluster.chances is self._mood:
            self._cluster.set_chances(BUSY)
            await self.lasts(2)
            self._cluster.set_chances(PEACE if self._calm_count else self._mood)

    # Of clients and their connections

    async def _lose_connection(self) -> None:
        self._network.lose_one()

    async def _kill_client(self) -> None:
        self.population.kill_one()

    async def _rival(self) -> None:
        self.population.rival_one()
