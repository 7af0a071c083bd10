"""The life of a node: it follows the lane and stands by, leads it, and follows it again.

Only lane 0 is fought for. Whoever has seen it silent for the detection time fences it; of those
who try at once the store lets one. A leader that finds another's entry, or cannot find out for
the detection time that there is none, steps down, and nothing of what it held counts any more.
Who is asked to hands over, and then nobody has to wait or to doubt.
"""

import asyncio
import contextlib
import math
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from semel.cluster.beating import Beating
from semel.cluster.channel import Channel, Connect
from semel.cluster.desk import Desk
from semel.cluster.format import ClusterFormat, check_same
from semel.cluster.handing_over import NotHandedOver, prepared
from semel.cluster.membership import Membership, NodeRefused
from semel.cluster.messages import (
    AnyAnswer,
    AnyRequest,
    Beat,
    Drain,
    Goodbye,
    Heard,
    Leads,
    Move,
    Prepare,
    Ready,
    Refused,
    TakeOver,
)
from semel.cluster.silence import Seen, Timing
from semel.errors import JournalFailed, JournalFull, NotLeaderOrFollower
from semel.journal.seam import Journal
from semel.journal.slots.following import Follower
from semel.journal.slots.journal import SlotJournal
from semel.journal.slots.opening import NotTaken
from semel.journal.slots.settings import SlotSettings
from semel.lane.commands import LaneSettings
from semel.lane.following import FollowedLane
from semel.lane.lane import Lane
from semel.lane.leader import Leader, LedBy, NodeAddress
from semel.lane.nodes import NoteStandbys
from semel.store.seam import Store
from semel.world import Randomness

LANE: Final = 0
INCARNATION_SIZE: Final = 16
TAKING_S_MAX: Final = 2.0
"""Beside the detection time: so long a node may take to lead that was handed over to."""
FAREWELL_S: Final = 0.3
"""So long a node that has handed over tells clients whom to, before it ends."""


class Host(Protocol):
    """The broker, as far as its node steers it."""

    node: Desk | None

    def follow(self, followed: FollowedLane, *, is_led: bool) -> None: ...

    def hear_of_leader(self, leader: LedBy) -> None: ...

    async def take_journal(
        self, number: int, journal: Journal, leader: Leader, followed: FollowedLane | None
    ) -> Lane: ...

    async def hand_over(self, lane: Lane, successor: int) -> None: ...


class Led(NamedTuple):
    """What a node has while it leads."""

    lane: Lane
    journal: SlotJournal
    membership: Membership


def slot_settings(timing: Timing) -> SlotSettings:
    """One request that is lost may cost neither a leader its lane nor a standby its count, so that
    it is given up, and made again, well within the detection time."""
    detection_s = timing.detection_s
    return SlotSettings(
        barrier_s=detection_s,
        attempt_s=min(10.0, max(0.5, detection_s / 2)),
        retry_s_max=min(2.0, detection_s / 3),
        flush_interval_ms=timing.flush_interval_ms,
        linger_ms=timing.linger_ms,
    )


class Node:
    def __init__(
        self,
        store: Store,
        cluster: ClusterFormat,
        leader: Leader,
        timing: Timing,
        lane_settings: LaneSettings,
        randomness: Randomness,
        host: Host,
        connect: Connect | None = None,
    ) -> None:
        """`leader` is what this node says of itself when it leads. Without a way to `connect` the
        nodes know nothing of each other but what they store."""
        self._store = store
        self._cluster = cluster
        self._leader = leader
        self._timing = timing
        self._lane_settings = lane_settings
        self._slot_settings = slot_settings(timing)
        self._randomness = randomness
        self._host = host
        self._connect = connect
        self._own = NodeAddress(leader.node_id, leader.host, leader.port)
        self._incarnation = randomness.token_bytes(INCARNATION_SIZE)
        self._follower: Follower | None = None
        """While it stands by."""
        self._look_now = asyncio.Event()
        """There is something to be read, another says."""
        self._led: Led | None = None
        self._leads = asyncio.Event()
        self._is_drained = False
        self._is_leaving = False
        self._handing_over: asyncio.Task[LedBy | NotHandedOver] | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._beating: Beating | None = None
        if connect is not None:
            self._beating = Beating(self._reach, timing, self._own_beat)
            host.node = Desk(cluster.rpc_key, randomness, self._answer)

    async def run(self) -> None:
        """Until it is cancelled. Raises CorruptJournal, NewerFormat, ClusterRefused."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            if self._beating is not None:
                tasks.create_task(self._beating.run())
            tasks.create_task(self._live())

    async def leave(self) -> None:
        """Let another lead, if this one does and there is one, and tell that this one is gone. It
        leads no more."""
        self._is_leaving = True
        led = self._led
        if led is not None and self._tasks is not None and self._connect is not None:
            candidates = led.membership.successors(_now_s(), led.journal.slot)
            if candidates and isinstance(await self._hand_over(candidates), LedBy):
                await asyncio.sleep(FAREWELL_S)
        elif self._beating is not None:
            await self._beating.say_goodbye(Goodbye(self._own.node_id, self._incarnation))

    async def _reach(self, address: NodeAddress) -> Channel:
        """Raises NodeAway."""
        assert self._connect is not None
        return await Channel.open(
            self._connect,
            address.host,
            address.port,
            self._cluster.rpc_key,
            self._randomness,
            self._timing.detection_s,
        )

    async def _live(self) -> None:
        while True:
            journal, followed = await self._stand_by()
            try:
                lane = await self._host.take_journal(LANE, journal, self._leader, followed)
            except (JournalFailed, NotLeaderOrFollower):
                # Another was faster, before anybody was served here.
                continue
            await self._lead(lane, journal)

    # Standing by

    async def _stand_by(self) -> tuple[SlotJournal, FollowedLane | None]:
        """Returns once the lane is fenced by this node."""
        follower = self._follower = Follower(self._store, LANE, self._slot_settings)
        await follower.begin()
        followed = self._followed(follower)
        while True:
            if await follower.look():
                followed = self._followed(follower)
            else:
                followed.read_on(follower)
            is_led = self._is_led(follower, followed)
            self._host.follow(followed, is_led=is_led)
            self._beat_to(followed.led_by if is_led else None)
            left_s = self._left_s(follower, followed)
            if left_s <= 0:
                try:
                    journal = await follower.take(
                        self._leader.node_id, self._randomness, only_silent=True
                    )
                except NotTaken:
                    followed.read_on(follower)
                else:
                    return journal, followed if journal.is_continued else None
            look_s = self._timing.look_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(look_s, left_s) if left_s > 0 else look_s):
                    await self._look_now.wait()
            self._look_now.clear()

    def _followed(self, follower: Follower) -> FollowedLane:
        followed = FollowedLane(self._lane_settings, LANE, follower)
        check_same(followed.cluster_id, self._cluster)
        return followed

    def _left_s(self, follower: Follower, followed: FollowedLane) -> float:
        if self._is_leaving:
            return math.inf
        seen = Seen(follower.epoch, follower.is_sealed, follower.successor)
        standing_by = [node.node_id for node in followed.standing_by]
        needed_s = self._timing.silence_s(seen, self._leader.node_id, standing_by)
        if self._is_drained:
            needed_s += self._timing.detection_s
        return needed_s - follower.silence.lasted_s

    @staticmethod
    def _is_led(follower: Follower, followed: FollowedLane) -> bool:
        """Whether who has led last still does, for all that is known: it has not said that it
        goes, and nobody has fenced it who has not said yet where it is."""
        led_by = followed.led_by
        return led_by is not None and not follower.is_sealed and follower.epoch == led_by.epoch

    def _beat_to(self, led_by: LedBy | None) -> None:
        """If it is this very address that has led, then this is the process that came after it."""
        if self._beating is not None:
            leader = None if led_by is None else led_by.address
            self._beating.led_by(None if leader == self._own else leader)

    def _own_beat(self) -> Beat:
        own = self._own
        return Beat(
            own.node_id, self._incarnation, own.host, own.port, self._slot, self._is_drained
        )

    @property
    def _slot(self) -> int:
        """The next that it will read."""
        return 0 if self._follower is None else self._follower.slot

    # Leading

    async def _lead(self, lane: Lane, journal: SlotJournal) -> None:
        """Until the lane is lost."""
        self._follower = None
        self._beat_to(None)
        standing_by = lane.view.standing_by
        membership = Membership(self._own, standing_by, self._timing.detection_s, _now_s())
        self._led = Led(lane, journal, membership)
        self._leads.set()
        try:
            while not lane.has_left.is_set():
                if lane.is_leading:
                    # While the store is away there may be no room; who waits is told all the same.
                    with contextlib.suppress(JournalFull):
                        self._note_standbys()
                        lane.beat(_passed)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._timing.beat_s):
                        await lane.has_left.wait()
        finally:
            self._leads.clear()
            self._led = None
        await lane.step_down()

    def _note_standbys(self) -> None:
        """In lane 0, when there is something new to say. Raises JournalFull."""
        led = self._led
        if led is not None and led.lane.is_leading:
            led.lane.submit(NoteStandbys.of(led.membership.live(_now_s())))

    async def _hand_over(self, candidates: Sequence[NodeAddress]) -> LedBy | NotHandedOver:
        """To the first of them that is ready; whoever asks for it may go away meanwhile."""
        if self._handing_over is None:
            assert self._tasks is not None
            self._handing_over = self._tasks.create_task(self._handed_over(candidates))
            self._handing_over.add_done_callback(self._forget_handing_over)
        return await asyncio.shield(self._handing_over)

    def _forget_handing_over(self, _: object) -> None:
        self._handing_over = None

    async def _handed_over(self, candidates: Sequence[NodeAddress]) -> LedBy | NotHandedOver:
        led, patience_s = self._led, self._timing.detection_s
        if led is None:
            return NotHandedOver(f"node {self._own.node_id} does not lead")
        try:
            successor = await prepared(candidates, self._reach, led.journal.slot, patience_s)
        except NotHandedOver as refused:
            return refused
        try:
            if led.lane.is_leading:
                await self._host.hand_over(led.lane, successor.address.node_id)
            leader = await successor.take_over(patience_s + TAKING_S_MAX)
        except TimeoutError:
            return NotHandedOver("the store does not answer: another takes over when it does")
        except NotHandedOver as refused:
            return refused
        finally:
            successor.close()
        self._host.hear_of_leader(leader)
        return leader

    # What other nodes ask

    async def _answer(self, request: AnyRequest) -> AnyAnswer:
        match request:
            case Beat():
                return self._heard(request)
            case Goodbye():
                return self._heard_goodbye(request)
            case Prepare():
                return self._prepare()
            case TakeOver():
                return await self._take_over()
            case Move():
                return await self._move(request.node_id)
            case Drain():
                return await self._drain(request.is_drained)

    def _heard(self, beat: Beat) -> AnyAnswer:
        led = self._led
        if led is None:
            return self._does_not_lead()
        try:
            led.membership.heard(beat, _now_s())
        except NodeRefused as refused:
            return Refused(str(refused), refused.is_final)
        with contextlib.suppress(JournalFull):
            self._note_standbys()
        return Heard(led.lane.view.epoch, led.journal.slot)

    def _heard_goodbye(self, goodbye: Goodbye) -> AnyAnswer:
        led = self._led
        if led is None:
            return self._does_not_lead()
        led.membership.gone(goodbye.node_id, goodbye.incarnation)
        with contextlib.suppress(JournalFull):
            self._note_standbys()
        return Heard(led.lane.view.epoch, led.journal.slot)

    def _tells(self, led: Led) -> Leads:
        return Leads(led.lane.view.epoch, self._own.node_id)

    def _does_not_lead(self) -> Refused:
        return Refused(f"node {self._own.node_id} does not lead", is_final=False)

    def _prepare(self) -> AnyAnswer:
        if self._is_leaving or self._is_drained or self._follower is None:
            why = "leads" if self._led is not None else "is not to lead"
            return Refused(f"node {self._own.node_id} {why}")
        return Ready(self._slot)

    async def _take_over(self) -> AnyAnswer:
        self._look_now.set()
        try:
            async with asyncio.timeout(self._timing.detection_s):
                await self._leads.wait()
        except TimeoutError:
            return Refused(f"node {self._own.node_id} does not lead yet", is_final=False)
        led = self._led
        return self._does_not_lead() if led is None else self._tells(led)

    async def _move(self, node_id: int) -> AnyAnswer:
        led = self._led
        if led is None:
            return self._does_not_lead()
        if node_id == self._own.node_id:
            return self._tells(led)
        live = led.membership.live(_now_s())
        chosen = [node for node in live if node.node_id == node_id]
        if not chosen:
            others = ", ".join(str(node.node_id) for node in live) or "none"
            return Refused(f"node {node_id} does not stand by; of the others: {others}")
        return _told(await self._hand_over(chosen))

    async def _drain(self, is_drained: bool) -> AnyAnswer:
        self._is_drained = is_drained
        led = self._led
        if led is None or not is_drained:
            return Ready(self._slot)
        candidates = led.membership.successors(_now_s(), led.journal.slot)
        handed_over = await self._hand_over(candidates)
        if isinstance(handed_over, NotHandedOver):
            self._is_drained = self._led is None
        return _told(handed_over)


def _told(handed_over: LedBy | NotHandedOver) -> AnyAnswer:
    if isinstance(handed_over, NotHandedOver):
        return Refused(str(handed_over))
    return Leads(handed_over.epoch, handed_over.node_id)


def _passed() -> None:
    """That it was said is enough."""


def _now_s() -> float:
    return asyncio.get_running_loop().time()
