"""The life of a node: it follows the lane and stands by, leads it, and follows it again.

Only lane 0 is fought for. Whoever has seen it silent for the detection time fences it; of those
who try at once the store lets one. A leader that finds another's entry, or cannot find out for
the detection time that there is none, steps down, and nothing of what it held counts any more.
Who is asked to hands over, and then nobody has to wait or to doubt.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from semel.cluster.answers import Answers
from semel.cluster.asking_around import AskingAround
from semel.cluster.beating import Beating
from semel.cluster.channel import Channel, Connect
from semel.cluster.desk import Desk
from semel.cluster.format import ClusterFormat, check_same
from semel.cluster.handing_over import NotHandedOver, prepared
from semel.cluster.keys import Keys
from semel.cluster.levels import LEVELS, Levels
from semel.cluster.membership import Membership
from semel.cluster.messages import About, Beat, Goodbye
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
from semel.types import CATALOGUE_LANE
from semel.world import Randomness

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

    def hear_while_blind(self, leader: LedBy | None) -> None: ...

    async def take_journal(
        self, number: int, journal: Journal, leader: Leader, followed: FollowedLane | None
    ) -> Lane: ...

    async def hand_over(self, lane: Lane, successor: int) -> None: ...

    def warn(self, warning: str) -> None: ...


class Led(NamedTuple):
    """What a node has while it leads."""

    lane: Lane
    journal: SlotJournal
    membership: Membership
    since_s: float


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
        about: Callable[[], About] = About,
        levels: Levels = LEVELS,
    ) -> None:
        """`leader` is what this node says of itself when it leads, `about` what it says to who
        looks at the cluster. Without a way to `connect` the nodes know nothing of each other but
        what they store."""
        self._store = store
        self._cluster = cluster
        self._leader = leader._replace(level=levels.newest)
        self.levels = levels
        self.timing = timing
        self._lane_settings = lane_settings
        self._slot_settings = slot_settings(timing)
        self._randomness = randomness
        self._host = host
        self._connect = connect
        self.about = about
        self.own = NodeAddress(leader.node_id, leader.host, leader.port)
        self._incarnation = randomness.token_bytes(INCARNATION_SIZE)
        self.follower: Follower | None = None
        """While it stands by."""
        self.look_now = asyncio.Event()
        """There is something to be read, another says."""
        self.led: Led | None = None
        self.leads = asyncio.Event()
        self.is_drained = False
        self.is_leaving = False
        self._handing_over: asyncio.Task[LedBy | NotHandedOver] | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._keys = Keys(store, cluster, timing.beat_s)
        self._beating: Beating | None = None
        self._asking_around: AskingAround | None = None
        if connect is not None:
            self._beating = Beating(self._reach, timing, self._own_beat, self._keys.doubt)
            self._asking_around = AskingAround(
                self._reach, timing, lambda: self.is_blind, host.hear_while_blind
            )
            host.node = Desk(self._keys, randomness, Answers(self).answer)

    async def run(self) -> None:
        """Until it is cancelled. Raises CorruptJournal, NewerFormat, ClusterRefused."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            if self._beating is not None:
                tasks.create_task(self._beating.run())
            if self._asking_around is not None:
                tasks.create_task(self._asking_around.run())
            tasks.create_task(self._keys.run())
            tasks.create_task(self._live())

    async def leave(self) -> None:
        """Let another lead, if this one does and there is one, and tell that this one is gone. It
        leads no more."""
        self.is_leaving = True
        led = self.led
        if led is not None and self._tasks is not None and self._connect is not None:
            candidates = led.membership.successors(self.now_s())
            if candidates and isinstance(await self.hand_over(candidates), LedBy):
                await asyncio.sleep(FAREWELL_S)
        elif self._beating is not None:
            await self._beating.say_goodbye(Goodbye(self.own.node_id, self._incarnation))

    @staticmethod
    def now_s() -> float:
        return asyncio.get_running_loop().time()

    async def _reach(self, address: NodeAddress) -> Channel:
        """Raises NodeAway."""
        assert self._connect is not None
        return await Channel.open(
            self._connect,
            address.host,
            address.port,
            self._keys.newest,
            self._randomness,
            self.timing.detection_s,
        )

    async def _live(self) -> None:
        while True:
            journal, followed = await self._stand_by()
            try:
                lane = await self._host.take_journal(
                    CATALOGUE_LANE, journal, self._leader, followed
                )
            except (JournalFailed, NotLeaderOrFollower):
                # Another was faster, before anybody was served here.
                continue
            await self._lead(lane, journal)

    # Standing by

    async def _stand_by(self) -> tuple[SlotJournal, FollowedLane | None]:
        """Returns once the lane is fenced by this node."""
        # Until it has begun, it has read nothing that others could ask for.
        self.follower = None
        follower = Follower(self._store, CATALOGUE_LANE, self._slot_settings)
        follower.on_warning = self._host.warn
        await follower.begin()
        self.follower = follower
        followed = self._followed(follower)
        while True:
            if await follower.look():
                followed = self._followed(follower)
            else:
                followed.read_on(follower)
            is_led = self._is_led(follower, followed)
            is_heard = follower.silence.lasted_s < self.timing.doubt_s
            if not self.is_blind:
                # A checkpoint alone may tell of a leader, and of topics, of long ago.
                self._host.follow(followed, is_led=is_led and is_heard)
                self._remember([*followed.standing_by, *_leader_of(followed)])
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
            look_s = self.timing.look_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(look_s, left_s) if left_s > 0 else look_s):
                    await self.look_now.wait()
            self.look_now.clear()

    def _followed(self, follower: Follower) -> FollowedLane:
        followed = FollowedLane(self._lane_settings, CATALOGUE_LANE, follower, self.levels.check)
        check_same(followed.cluster_id, self._cluster)
        return followed

    def _left_s(self, follower: Follower, followed: FollowedLane) -> float:
        if self.is_leaving:
            return math.inf
        seen = Seen(follower.epoch, follower.is_sealed, follower.successor)
        standing_by = [node.node_id for node in followed.standing_by]
        needed_s = self.timing.silence_s(seen, self._leader.node_id, standing_by)
        if self.is_drained:
            needed_s += self.timing.detection_s
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
            self._beating.led_by(None if leader == self.own else leader)

    def _own_beat(self) -> Beat:
        own = self.own
        return Beat(
            own.node_id,
            self._incarnation,
            own.host,
            own.port,
            self.slot,
            self.is_drained,
            self.about(),
            self.levels,
        )

    @property
    def slot(self) -> int:
        """The next that it will read."""
        return 0 if self.follower is None else self.follower.slot

    @property
    def is_blind(self) -> bool:
        """It stands by, and has not been able to read the store for the detection time."""
        if self.led is not None:
            return False
        caught_up_s = None if self.follower is None else self.follower.caught_up_s
        return caught_up_s is None or self.now_s() - caught_up_s > self.timing.detection_s

    def _remember(self, nodes: Sequence[NodeAddress]) -> None:
        if self._asking_around is not None:
            own_id = self.own.node_id
            self._asking_around.others = [node for node in nodes if node.node_id != own_id]

    # Leading

    async def _lead(self, lane: Lane, journal: SlotJournal) -> None:
        """Until the lane is lost. Raises ClusterRefused."""
        self.levels.check(lane.view.level)
        self.follower = None
        self._beat_to(None)
        standing_by = lane.view.standing_by
        now_s = self.now_s()
        membership = Membership(self.own, standing_by, self.timing.detection_s, now_s)
        self.led = Led(lane, journal, membership, now_s)
        self.leads.set()
        try:
            while not lane.has_left.is_set():
                self._remember(membership.live(self.now_s()))
                if lane.is_leading:
                    # While the store is away there may be no room; who waits is told all the same.
                    with contextlib.suppress(JournalFull):
                        self.note_standbys()
                        lane.beat(_passed)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.timing.beat_s):
                        await lane.has_left.wait()
        finally:
            self.leads.clear()
            self.led = None
        await lane.step_down()

    def note_standbys(self) -> None:
        """In lane 0, when there is something new to say. Raises JournalFull."""
        led = self.led
        if led is not None and led.lane.is_leading:
            led.lane.submit(NoteStandbys.of(led.membership.live(self.now_s())))

    async def hand_over(self, candidates: Sequence[NodeAddress]) -> LedBy | NotHandedOver:
        """To the first of them that is ready; whoever asks for it may go away meanwhile."""
        if self._handing_over is None:
            assert self._tasks is not None
            self._handing_over = self._tasks.create_task(self._handed_over(candidates))
            self._handing_over.add_done_callback(self._forget_handing_over)
        return await asyncio.shield(self._handing_over)

    def _forget_handing_over(self, _: object) -> None:
        self._handing_over = None

    async def _handed_over(self, candidates: Sequence[NodeAddress]) -> LedBy | NotHandedOver:
        led, patience_s = self.led, self.timing.detection_s
        if led is None:
            return NotHandedOver(f"node {self.own.node_id} does not lead")
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


def _passed() -> None:
    """That it was said is enough."""


def _leader_of(followed: FollowedLane) -> list[NodeAddress]:
    return [] if followed.led_by is None else [followed.led_by.address]
