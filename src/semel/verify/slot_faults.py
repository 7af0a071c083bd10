"""Schedules that lead to what rules of slots are made for and chance seldom brings: what arrives
late, is missing, or stands where nobody expects it."""

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING

from semel.verify.history import Acknowledged, Committed
from semel.verify.workloads.watchers import ask_end, ask_offset, store_one
from semel.verify.world.cluster import TIMING, Cluster, SimulatedNode
from semel.verify.world.node_store import DATA, FENCE, UNHEARD_VOLUMES, Sent, nothing
from semel.verify.world.slots_seen import PUTS_AT_ONCE_MAX, SlotAt

if TYPE_CHECKING:
    from semel.verify.cluster_faults import ClusterFaults

PATIENCE_S = 60.0
SLEEP_S_MAX = 12.0
VOLUMES = "vol/"
HELD_MIN = 4
ASKING_S = 0.2
"""So long questions are on their way."""


class SlotFaults:
    def __init__(self, faults: "ClusterFaults", cluster: Cluster) -> None:
        self._faults = faults
        self._cluster = cluster
        self._rng = faults.rng
        self._asked_count = 0

    # Of a leader

    async def leave_a_hole(self) -> None:
        """One of its entries does not arrive, those behind it do, and it is gone for a while."""
        lane = self._faults.some_lane()
        node = await self._faults.victim(lane)
        if node is None:
            return
        lost: list[SlotAt] = []

        def loses(sent: Sent) -> bool:
            if sent.kind == DATA and sent.at.lane == lane and not lost:
                lost.append(sent.at)
            return sent.kind == DATA and sent.at in lost

        seen = self._cluster.bucket.lanes[lane]
        node.store.loses = loses
        epoch = seen.epoch
        if await self._faults.until(lambda: seen.has_hole, TIMING.detection_s):
            if self._rng.random() < 0.5:
                self._cluster.kill(node)
            else:
                node.freeze(PATIENCE_S)
            await self._faults.until(lambda: seen.epoch > epoch, 5 * TIMING.detection_s)
            await self._faults.lasts(0.5)
        node.store.loses = nothing
        if node.is_alive:
            node.thaw()
            node.is_in_trouble = False
        else:
            self._faults.start_again(node)

    async def land_late(self) -> None:
        """Several entries of one leader are under way when it goes, and arrive one by one in the
        slots that its successor comes to."""
        faults, seen = self._faults, self._cluster.bucket.lanes[0]
        node = await self._calm_leader()
        if node is None:
            faults.end_peace()
            return
        node.is_in_trouble = True
        # Right behind a fence a leader has one entry under way at a time.
        await faults.until(lambda: seen.behind_fence > PUTS_AT_ONCE_MAX, TIMING.detection_s)
        node.store.holds = lambda sent: sent.kind == DATA and not sent.at.lane
        held, epoch = node.store.held, seen.epoch
        await faults.until(lambda: len(held) >= HELD_MIN, 0.5 * TIMING.detection_s)
        if self._rng.random() < 0.5:
            self._cluster.kill(node)
        else:
            node.freeze(PATIENCE_S)
        # While nobody writes it is by a GET that the successor finds them.
        faults.population.hush(2 * TIMING.detection_s)
        if await faults.until(lambda: seen.epoch > epoch, 5 * TIMING.detection_s):
            for at in sorted(held):
                await faults.until(
                    lambda at=at: seen.next_slot > at.slot or self._is_at_rest_before(at),  # type: ignore[misc]
                    TIMING.detection_s,
                )
                if self._is_at_rest_before(at):
                    self._ask_behind(node, at)
        faults.end_peace()
        node.store.holds = nothing
        held.clear()
        if node.is_alive:
            self._wake(node)
        else:
            faults.start_again(node)

    def _is_at_rest_before(self, at: SlotAt) -> bool:
        """Whoever leads comes to this slot next, and has nothing under way."""
        leader = self._cluster.leader_of(at.lane)
        is_next = self._cluster.bucket.lanes[at.lane].next_slot == at.slot
        return is_next and leader is not None and leader.is_at_rest_before(at.slot)

    def _ask_behind(self, node: SimulatedNode, at: SlotAt) -> None:
        leader = self._cluster.leader_of(at.lane)
        assert leader is not None
        node.store.arrive(at)
        leader.ask_barrier()

    async def question_a_zombie(self) -> None:
        """It wakes up with questions that came when others had stored more than it knows of."""
        faults, seen = self._faults, self._cluster.bucket.lanes[0]
        node = await self._calm_leader()
        if node is None:
            faults.end_peace()
            return
        node.is_in_trouble = True
        epoch = seen.epoch
        node.freeze(PATIENCE_S)
        if await faults.until(lambda: seen.epoch > epoch, 5 * TIMING.detection_s):
            for kind in (Acknowledged, Committed):
                await self._met(kind)
            self._ask_all(node)
            await asyncio.sleep(ASKING_S)
        faults.end_peace()
        self._wake(node)

    def _ask_all(self, node: SimulatedNode) -> None:
        """This node, where logs end and what the group has committed."""
        workload, population = self._faults.workload, self._faults.population
        self._asked_count += 1
        for number, partition in enumerate(workload.partitions):
            population.send_one(
                f"asker-{self._asked_count}-{number}",
                partial(ask_end, host=node, partition=partition),
            )
        for number, partition in enumerate(workload.shared):
            population.send_one(
                f"asker-of-group-{self._asked_count}-{number}",
                partial(ask_offset, host=node, group=workload.group, partition=partition),
            )

    async def _met(self, kind: type[Acknowledged | Committed], longest: float = 3) -> None:
        met = asyncio.Event()
        self._faults.history.when_next(kind, met.set)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest * TIMING.detection_s):
                await met.wait()

    async def store_volumes_unheard(self) -> None:
        """They are there, and whoever has stored them stores them again under other names."""
        node, counts = await self._calm_leader(), self._cluster.bucket.counts
        if node is not None:
            node.is_in_trouble = True
            node.store.is_unheard = lambda key: key.startswith(VOLUMES)
            before = counts[UNHEARD_VOLUMES]
            await self._faults.until(
                lambda: counts[UNHEARD_VOLUMES] > before, 6 * TIMING.detection_s
            )
            node.store.is_unheard = lambda key: False
            # It looks for what is not named in each round.
            await self._faults.lasts(0.5)
            node.is_in_trouble = False
        self._faults.end_peace()

    # Of one that stands by

    async def _standby(self) -> SimulatedNode | None:
        """Whom nothing has befallen yet, once somebody leads."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * TIMING.detection_s):
                await self._cluster.serving(0)
        nodes = [
            node
            for node in self._cluster.nodes.values()
            if node.is_alive and not node.is_in_trouble and node.follows is not None
        ]
        if not nodes or self._cluster.leader_of(0) is None:
            return None
        chosen = self._rng.choice(nodes)
        chosen.is_in_trouble = True
        return chosen

    async def _calm_leader(self) -> SimulatedNode | None:
        """Who leads, once all are well; and nothing befalls anybody until peace ends."""
        self._faults.begin_peace()
        await self._faults.until(self._is_calm, 5 * TIMING.detection_s)
        leader = self._cluster.leader_of(0)
        return leader if self._is_calm() else None

    def _is_calm(self) -> bool:
        nodes = self._cluster.nodes.values()
        is_led = self._cluster.leader_of(0) is not None and not self._cluster.zombies_of(0)
        return is_led and all(each.is_alive and not each.is_in_trouble for each in nodes)

    async def usurp(self) -> None:
        """It fences a leader that is well, and serves on until it hears of it; others ask that one
        where logs end, of which its successor has stored more."""
        leader = await self._calm_leader()
        usurper = await self._standby()
        if leader is not None and usurper is not None:
            leader.is_in_trouble = True
            # While nobody writes it is by a GET that the leader learns of it.
            self._faults.population.hush(2 * TIMING.detection_s)
            await asyncio.sleep(self._rng.uniform(0.1, 0.4) * TIMING.detection_s)
            await self._be_impatient(usurper, 0.5 * TIMING.detection_s)
            await self._faults.until(
                lambda: self._cluster.leader_of(0) is usurper, 0.3 * TIMING.detection_s
            )
            partition = self._rng.choice(self._faults.workload.partitions)
            self._faults.population.send_one(
                f"late-producer-{self._asked_count}", partial(store_one, partition=partition)
            )
            await self._met(Acknowledged, 0.3)
            self._ask_all(leader)
            await asyncio.sleep(ASKING_S)
            leader.is_in_trouble = False
        self._faults.end_peace()
        if usurper is not None:
            usurper.is_in_trouble = False

    async def _be_impatient(self, standby: SimulatedNode, longest_s: float) -> None:
        assert standby.node is not None
        standby.node.is_impatient = True
        seen = self._cluster.bucket.lanes[0]
        epoch = seen.epoch
        await self._faults.until(lambda: standby.is_frozen or seen.epoch > epoch, longest_s)
        standby.node.is_impatient = False

    async def sleep_before_fence(self) -> None:
        """It has found a slot free, and its fence arrives when that was written and collected."""
        await self._calm_leader()
        candidate = await self._standby()
        if candidate is None:
            self._faults.end_peace()
            return
        sleeper, slots = candidate, list[SlotAt]()

        def loses(sent: Sent) -> bool:
            if sent.kind != FENCE or sent.at.lane:
                return False
            slots.append(sent.at)
            sleeper.freeze(PATIENCE_S)
            return True

        candidate.store.loses = loses
        await self._be_impatient(candidate, 2 * TIMING.detection_s)
        candidate.store.loses = nothing
        if slots:
            await self._sleep_past(candidate, slots[0])
        self._faults.end_peace()
        self._wake(candidate)

    async def sleep_while_slots_go(self) -> None:
        standby = await self._standby()
        follower = None if standby is None else standby.follows
        if standby is None or follower is None:
            return
        slot = SlotAt(0, follower.slot)
        standby.freeze(PATIENCE_S)
        await self._sleep_past(standby, slot)
        self._wake(standby)

    async def _sleep_past(self, sleeper: SimulatedNode, slot: SlotAt) -> None:
        """Until that was collected, which others can do in peace."""
        self._faults.begin_peace()
        bucket = self._cluster.bucket
        await self._faults.until(
            lambda: bucket.was_collected(slot) or bucket.stays(slot), SLEEP_S_MAX
        )
        self._faults.counts["slept until a slot was collected"] += bucket.was_collected(slot)
        self._faults.end_peace()

    def _wake(self, node: SimulatedNode) -> None:
        node.thaw()
        node.is_in_trouble = False
