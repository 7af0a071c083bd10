"""Several processes fight over one lane on a store that loses, delays and doubles what it is told.

The oracle holds what was first in each slot, which is the truth: nobody can change it later, and
what is put into a slot that was collected says nothing. It decodes by itself and knows nothing of
what the journals believe.
"""

import asyncio
import struct
from collections import Counter
from collections.abc import Coroutine
from contextvars import Context
from functools import partial
from random import Random
from typing import Any, NamedTuple

from semel.errors import JournalFailed, JournalFull
from semel.journal.pages import NotLoaded
from semel.journal.slots.following import Follower
from semel.journal.slots.journal import SlotJournal
from semel.journal.slots.opening import NotTaken
from semel.journal.slots.settings import PUTS_AT_ONCE_MAX, SlotSettings
from semel.verify.world.loop import Process, SimulatedLoop, simulate
from support.journal_world import RememberingOn
from support.slot_store import Fault, SeededRandomness, SlotStore
from support.slot_world import Leader, StandBy

SETTINGS = SlotSettings(
    slot_bytes=2048,
    ahead_bytes=300,
    unconfirmed_bytes=2**14,
    stretch_bytes=2048,
    checkpoint_slots=12,
    attempt_s=3.0,
    barrier_s=4.0,
    tail_bytes=4096,
)
CHAOS_S = 300.0
NODE_COUNT = 3
_HEADER = struct.Struct("<4sBc2xiii16sQQI")


class Truth(NamedTuple):
    epoch: int
    leader: int
    """The node whose fence is the latest that counts."""
    is_sealed: bool
    term: int
    payloads: tuple[bytes, ...]


class Oracle:
    def __init__(self) -> None:
        self.truths = [Truth(-1, -1, False, -1, ())]
        """Before each slot."""
        self.leaders: dict[int, int] = {}
        """By epoch."""
        self.void_count = 0
        self.ahead_count = 0
        """Entries that were there before one in front of them."""
        self._seen: set[str] = set()
        self._ahead: dict[int, bytes] = {}

    def created(self, key: str, stored: bytes) -> None:
        if not key.startswith("j/") or key in self._seen:
            return
        self._seen.add(key)
        slot = int(key[-12:])
        self._ahead[slot] = stored
        if slot != len(self.truths) - 1:
            self.ahead_count += 1
            assert slot < len(self.truths) - 1 + PUTS_AT_ONCE_MAX, f"slot {slot} is too far ahead"
        while (following := self._ahead.pop(len(self.truths) - 1, None)) is not None:
            self._follow(following)

    def _follow(self, stored: bytes) -> None:
        _, _, kind, epoch, _, node, _, _, _, size = _HEADER.unpack_from(stored)
        now = self.truths[-1]
        if kind == b"F":
            if epoch > now.epoch:
                term = now.term if now.is_sealed else epoch
                now = Truth(epoch, node, False, term, now.payloads)
                assert self.leaders.setdefault(epoch, node) == node
        elif epoch == now.epoch and not now.is_sealed:
            assert node == now.leader, f"two lead in epoch {epoch}"
            if kind == b"S":
                now = now._replace(is_sealed=True)
            else:
                found = tuple(_payloads(stored[len(stored) - size :]))
                now = now._replace(payloads=now.payloads + found)
        else:
            self.void_count += 1
        self.truths.append(now)

    @property
    def now(self) -> Truth:
        return self.truths[-1]

    def check_opened(self, lane: Leader, fence: int) -> None:
        before, journal = self.truths[fence], lane.journal
        assert tuple(lane.replayed) == before.payloads, "what was replayed is not what counts"
        assert journal.epoch == self.truths[fence + 1].epoch, "it leads without a fence"
        assert journal.term == self.truths[fence + 1].term, "another term"
        doubts = before.epoch >= 0 and not before.is_sealed
        assert journal.may_miss_acknowledged == doubts, "doubt was forgotten or invented"


def _payloads(body: bytes) -> list[bytes]:
    found = []
    while body:
        size = int.from_bytes(body[8:12], "little")
        found.append(body[32 : 32 + size])
        body = body[32 + size :]
    return found


class World:
    def __init__(self, seed: int) -> None:
        self.rng = Random(f"slots {seed}")
        self.store = SlotStore()
        self.oracle = Oracle()
        self.counts: Counter[str] = Counter()
        self.acknowledged: list[bytes] = []
        self.errors: list[BaseException] = []
        self.is_chaos = True
        self.processes: list[Process] = []
        self._node = 0
        self._payload = 0
        rng = self.rng
        self.store.on_created = self.oracle.created
        self.store.delay_s = lambda: rng.choice((0.01, 0.02, 0.05, rng.random()))
        self.store.late_s = lambda: rng.choice((1.0, 5.0, 20.0)) * rng.random()
        self.store.fault = self._fault

    def _fault(self, verb: str, key: str) -> Fault:
        if not self.is_chaos or self.rng.random() > 0.08:
            return Fault.NONE
        if verb == "create":
            fault = self.rng.choice([each for each in Fault if each is not Fault.NONE])
        else:
            fault = Fault.LOST
        self.counts[fault.name] += 1
        return fault

    # A node.

    async def live(self, node: int) -> None:
        try:
            await self._live(node)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - the run tells.
            self.errors.append(error)

    async def _live(self, node: int) -> None:
        rng = Random(f"node {node} {self.rng.random()}")
        tokens = SeededRandomness(Random(f"nonces {node} {rng.random()}"))
        while True:
            await asyncio.sleep(rng.random())
            lane = await self._lead(node, rng, tokens)
            if lane is None:
                continue
            fence = lane.journal.slot - 1
            self.oracle.check_opened(lane, fence)
            self.counts["taken"] += 1
            self.counts["continued"] += lane.journal.is_continued
            lane.start()
            await self._serve(lane, node, rng)

    async def _lead(self, node: int, rng: Random, tokens: SeededRandomness) -> Leader | None:
        try:
            if rng.random() < 0.3:
                if self.oracle.now.leader in self.alive and rng.random() < 0.7:
                    return None
                return RememberingOn(await SlotJournal.open(self.store, 0, node, tokens, SETTINGS))
            stand_by = StandBy(self.store, SETTINGS)
            await stand_by.begin()
            patience_s = rng.choice((0.5, 2.0, 3.0))
            follower: Follower = stand_by.follower
            for _ in range(rng.choice((5, 60))):
                if follower.silence.lasted_s > patience_s or follower.is_sealed:
                    break
                await stand_by.look()
                await asyncio.sleep(rng.choice((0.1, 0.5, 1.0)))
            else:
                if rng.random() < 0.8:
                    return None
            journal = await follower.take(node, tokens)
            return RememberingOn(journal, stand_by.payloads if journal.is_continued else [])
        except NotTaken:
            self.counts["not taken"] += 1
            return None

    @property
    def alive(self) -> set[int]:
        return {int(process.name) for process in self.processes if process.is_alive}

    async def _serve(self, lane: Leader, node: int, rng: Random) -> None:
        journal = lane.journal
        epoch = journal.epoch
        for _ in range(rng.choice((3, 30, 120))):
            if lane.failures:
                break
            await asyncio.sleep(rng.choice((0.0, 0.01, 0.1, 0.5)))
            try:
                what = rng.random()
                if what < 0.6:
                    self._append_some(lane, rng)
                elif what < 0.75:
                    asked = self.oracle.now
                    journal.barrier(partial(self._passed, asked.epoch, epoch, journal.end, lane))
                elif what < 0.82:
                    await journal.checkpoint_now()
                elif what < 0.9:
                    await self._release(lane, rng)
                else:
                    await self._read(lane, rng)
            except JournalFull:
                self.counts["full"] += 1
            except JournalFailed:
                break
        how = rng.random()
        if how < 0.5:
            await journal.close(rng.choice((None, node)))
            self.counts["sealed"] += not lane.failures
        elif how < 0.8:
            journal.abandon()
            await journal.close()
        else:
            journal.fail(ValueError("torn"), "a step")
            await journal.close()

    def _append_some(self, lane: Leader, rng: Random) -> None:
        """At times so much that several slots are begun."""
        for _ in range(rng.choice((1, 1, 1, 12))):
            self._append(lane, rng)

    def _append(self, lane: Leader, rng: Random) -> None:
        self._payload += 1
        payload = b"%06d:" % self._payload + b"x" * rng.choice((0, 50, 300))
        lane.append(payload)
        lane.journal.when_durable(lane.journal.end, partial(self._durable, payload))

    def _durable(self, payload: bytes) -> None:
        self.acknowledged.append(payload)
        if payload not in self.oracle.now.payloads:
            # Whoever calls back would take an error for its own.
            self.errors.append(AssertionError("acknowledged, and not there"))

    def _passed(self, asked_epoch: int, epoch: int | None, end: int, lane: Leader) -> None:
        self.counts["barriers"] += 1
        if asked_epoch != epoch or lane.journal.durable < end:
            self.errors.append(AssertionError("a zombie has passed a barrier"))

    async def _release(self, lane: Leader, rng: Random) -> None:
        """What is held in no volume stays: only what a checkpoint tells is given up."""
        before = len(self.store.keys("j/"))
        lane.journal.release_before(lane.journal.end)
        await asyncio.sleep(rng.random())
        self.counts["collected"] += max(0, before - len(self.store.keys("j/")))

    async def _read(self, lane: Leader, rng: Random) -> None:
        if not lane.payloads:
            return
        offset = rng.randrange(len(lane.payloads))
        expected = lane.payloads[offset]
        try:
            while True:
                try:
                    extents = lane.journal.index.extents(0, offset, offset + 1, 1)
                    break
                except NotLoaded as missing:
                    missing.keep(
                        await lane.journal.read_index(missing.name, missing.offset, missing.size)
                    )
            if extents:
                (found,) = await lane.journal.read_all(extents[:1])
                if self.is_last_of(lane, offset):
                    assert bytes(found) == expected
                self.counts["reads"] += 1
        except OSError:
            self.counts["unread"] += 1

    def is_last_of(self, lane: Leader, offset: int) -> bool:
        """What a released stretch held may be gone, and then the next batch is found."""
        return offset >= len(lane.payloads) - 3

    # The world.

    def boot(self) -> None:
        self._node += 1
        process = Process(str(self._node))
        self.processes.append(process)
        process.start(self.live(self._node))

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        loop.set_exception_handler(self._on_error)
        for _ in range(NODE_COUNT):
            self.boot()
        while loop.time() < CHAOS_S:
            await asyncio.sleep(self.rng.random() * 2)
            living = [process for process in self.processes if process.is_alive]
            chosen = self.rng.choice(living)
            what = self.rng.random()
            if what < 0.15:
                chosen.die()
                self.counts["kills"] += 1
                self.boot()
            elif what < 0.5 and not chosen.is_frozen:
                loop.freeze(chosen, self.rng.choice((0.5, 2.0, 8.0)))
                self.counts["freezes"] += 1
            elif what < 0.55:
                self.store.is_away = True
                loop.call_later(3 * self.rng.random(), self._come_back, context=Context())
            if self.errors:
                break
        for process in self.processes:
            process.die()
        self.is_chaos = False
        self.store.is_away = False
        if self.errors:
            raise self.errors[0]
        await asyncio.sleep(60)
        tokens = SeededRandomness(Random("last"))
        last = RememberingOn(await SlotJournal.open(self.store, 0, 999, tokens, SETTINGS))
        self.oracle.check_opened(last, last.journal.slot - 1)
        for payload in self.acknowledged:
            assert last.payloads.count(payload) == 1, "lost or doubled"
        if self.errors:
            raise self.errors[0]

    def _come_back(self) -> None:
        self.store.is_away = False

    def _on_error(self, loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None:
            self.errors.append(error)


def fight(seed: int) -> Counter[str]:
    world = World(seed)

    tasks: list[asyncio.Task[Any]] = []

    def hold(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **how: Any
    ) -> "asyncio.Task[Any]":
        # Those of the dead are never woken again. Were they collected while the run goes on, what
        # they have open would be closed by the collector, on tasks that are half gone by then.
        tasks.append(asyncio.Task(work, loop=loop, **how))
        return tasks[-1]

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(hold)  # type: ignore[arg-type]
        try:
            await world.run()
        finally:
            for task in tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    suspended = task.get_coro()
                    assert isinstance(suspended, Coroutine)
                    suspended.close()

    simulate(seed, main)
    world.counts["acknowledged"] = len(world.acknowledged)
    world.counts["slots"] = len(world.oracle.truths) - 1
    world.counts["void"] = world.oracle.void_count
    world.counts["ahead"] = world.oracle.ahead_count
    return world.counts
