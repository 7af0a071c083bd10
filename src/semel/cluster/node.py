"""The life of a node: it follows lane 0 and stands by, leads it, and follows it again.

Only lane 0 is fought for; where the others are led is said in it (`placed_lane.py`). Whoever has
seen it silent for the detection time fences it; of those who try at once the store lets one. A
leader that finds another's entry, or cannot find out for the detection time that there is none,
steps down, and nothing of what it held counts any more. Who is asked to hands over, and then nobody
has to wait or to doubt.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from semel.cluster.answers import Answers
from semel.cluster.asking_around import AskingAround
from semel.cluster.beating import Beating
from semel.cluster.channel import Channel, Connect, NodeAway
from semel.cluster.desk import Desk
from semel.cluster.format import ClusterFormat, check_same
from semel.cluster.handing_over import NotHandedOver, prepared
from semel.cluster.hearing import Hearing
from semel.cluster.keys import Keys, KnownKey
from semel.cluster.levels import LEVELS, Levels
from semel.cluster.membership import Membership
from semel.cluster.messages import (
    About,
    AnyAnswer,
    Beat,
    Forwarded,
    Goodbye,
    LaneCall,
    Leading,
    LedLane,
    Trouble,
)
from semel.cluster.placed_lane import PlacedLane
from semel.cluster.placement import Candidate
from semel.cluster.placing import Placing
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
from semel.lane.lanes import LanesView
from semel.lane.leader import Leader, LedBy, NodeAddress
from semel.lane.nodes import NoteStandbys
from semel.store.seam import Store
from semel.types import CATALOGUE_LANE, Term
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

    def hear_of_leader(self, leader: LedBy, lane: int = CATALOGUE_LANE) -> None: ...

    @property
    def is_in_line(self) -> bool: ...

    def spread_over(self, lane_count: int) -> None: ...

    def reach_others(self, key: KnownKey, connect: Connect) -> None: ...

    def tell_by(self, hearing: Hearing) -> None: ...

    def make_internal_topics(self) -> None: ...

    async def answer_lane(self, asked: LaneCall) -> AnyAnswer: ...

    async def answer_forwarded(self, asked: Forwarded) -> AnyAnswer: ...

    def heard_all(self, since_s: float) -> None: ...

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
    placing: Placing
    hearing: Hearing
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
        free_s=min(4.0, detection_s * 2 / 3),
        gap_s=min(2.0, detection_s / 3),
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
        self.store = store
        self.cluster = cluster
        self.leader = leader._replace(level=levels.newest)
        self.levels = levels
        self.timing = timing
        self.lane_settings = lane_settings
        self.slot_settings = slot_settings(timing)
        self.randomness = randomness
        self.host = host
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
        self._followed: FollowedLane | None = None
        """Lane 0, as it was read to its end."""
        self.lanes: dict[int, PlacedLane] = {}
        """Those besides lane 0."""
        self._worked_in = 0
        """The slot of lane 0 up to which the lanes that are led here are in line with it."""
        self._confirmed_s = -math.inf
        """When it was last confirmed that what is followed of lane 0 is true."""
        self._must_confirm = False
        self._was_alone_s = -math.inf
        """When it was last certain to lead lane 0, if it does."""
        self._heard = asyncio.Event()
        self._handing_over: asyncio.Task[LedBy | NotHandedOver] | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._keys = Keys(store, cluster, timing.beat_s)
        self._beating: Beating | None = None
        self._asking_around: AskingAround | None = None
        if connect is not None:
            self._beating = Beating(self.reach, timing, self._own_beat, self._keys.doubt)
            self._asking_around = AskingAround(
                self.reach, timing, lambda: self.is_blind, host.hear_while_blind
            )
            host.node = Desk(self._keys, randomness, Answers(self).answer)

    async def run(self) -> None:
        """Until it is cancelled. Raises CorruptJournal, NewerFormat, ClusterRefused."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            if self._connect is not None:
                self.host.reach_others(self._keys, self._connect)
            if self._beating is not None:
                tasks.create_task(self._beating.run())
            if self._asking_around is not None:
                tasks.create_task(self._asking_around.run())
            tasks.create_task(self._keys.run())
            tasks.create_task(self._live())

    async def leave(self) -> None:
        """Let others lead what this one does, if there are any, and tell that this one is gone. It
        leads no more."""
        self.is_leaving = True
        await self.let_go()
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

    async def let_go(self) -> None:
        """Let the leader of lane 0 place elsewhere what this node is not to lead any more, and
        return when that is done, or takes too long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.timing.detection_s + TAKING_S_MAX):
                while self.led_lanes() and self._are_there_others():
                    self.tell_leader()
                    await self.until_heard()

    async def reach(self, address: NodeAddress) -> Channel:
        """Raises NodeAway."""
        assert self._connect is not None
        return await Channel.open(
            self._connect,
            address.host,
            address.port,
            self._keys.newest,
            self.randomness,
            self.timing.detection_s,
        )

    # What is known of the lanes

    @property
    def known_lanes(self) -> LanesView | None:
        """As lane 0 says, here or followed; None while nothing is known."""
        if self.led is not None:
            return self.led.lane.view.lanes
        return None if self._followed is None else self._followed.lanes

    @property
    def live_nodes(self) -> list[NodeAddress]:
        """As lane 0 says; this one may be missing."""
        if self.led is not None:
            return [self.own, *self.led.membership.live(self.now_s())]
        followed = self._followed
        if followed is None:
            return []
        led_by = followed.led_by
        return [*followed.standing_by, *([] if led_by is None else [led_by.address])]

    def has_heard_since(self, since_s: float) -> bool:
        """Whether all that stood in lane 0 at that time is known here."""
        if self.led is not None:
            return self._was_alone_s >= since_s
        if self._confirmed_s < since_s:
            self._must_confirm = True
            return False
        if self._followed is None or self._followed.caught_up_s is None:
            return False
        return self._followed.caught_up_s >= since_s

    async def until_heard(self) -> None:
        """Return when something was heard of lane 0, perhaps nothing new."""
        await self._heard.wait()

    def _hear(self) -> None:
        self._heard.set()
        self._heard = asyncio.Event()
        lanes = self.known_lanes
        assert self._tasks is not None
        for number in range(1, 1 if lanes is None else lanes.count):
            if number not in self.lanes:
                placed = self.lanes[number] = PlacedLane(self, number)
                self._tasks.create_task(placed.run())

    def led_lanes(self) -> list[LedLane]:
        """Besides lane 0."""
        return [led for lane in self.lanes.values() if (led := lane.status()) is not None]

    def troubles(self) -> list[Trouble]:
        return [Trouble(each.number, each.trouble) for each in self.lanes.values() if each.trouble]

    def candidate(self) -> Candidate:
        return Candidate(self.own.node_id, self.is_drained, self.is_leaving)

    def _are_there_others(self) -> bool:
        if self.led is not None:
            return bool(self.led.membership.successors(self.now_s()))
        return any(node != self.own for node in self.live_nodes)

    def tell_leader(self) -> None:
        """Say at once what is new here to whoever leads lane 0, instead of with the next beat."""
        if self.led is not None:
            with contextlib.suppress(JournalFull, NotLeaderOrFollower):
                self.place()
        elif self._beating is not None:
            self._beating.now()

    def place(self) -> None:
        """As who leads lane 0: say where the others are to be led. Raises JournalFull,
        NotLeaderOrFollower."""
        led = self.led
        if led is not None and led.lane.is_leading:
            led.placing.heard_of(self.own, self.led_lanes())
            led.placing.look()

    def lane_taken(self, lane: PlacedLane) -> None:
        self.tell_leader()
        assert self._tasks is not None
        said = lane.leading()
        self.host.hear_of_leader(LedBy(Term(said.epoch), *self.own), lane.number)
        for address in self.live_nodes:
            if self._connect is not None and address.node_id != self.own.node_id:
                self._tasks.create_task(self._say(address, said))

    def lane_left(self) -> None:
        self._hear()
        self.tell_leader()

    async def _say(self, address: NodeAddress, said: Leading) -> None:
        """Tell one node who leads. If it does not hear it now, it will from lane 0."""
        with contextlib.suppress(NodeAway):
            channel = await self.reach(address)
            try:
                await channel.ask(said, self.timing.beat_s)
            finally:
                channel.close()

    async def _live(self) -> None:
        while True:
            journal, followed, gone = await self._stand_by()
            try:
                lane = await self.host.take_journal(CATALOGUE_LANE, journal, self.leader, followed)
            except (JournalFailed, JournalFull, NotLeaderOrFollower):
                # Another was faster, or a lane that is led here has no room to drop what is
                # deleted. Nobody was served here.
                continue
            await self._lead(lane, journal, gone)

    # Standing by

    async def _stand_by(self) -> tuple[SlotJournal, FollowedLane | None, int | None]:
        """Returns once the lane is fenced by this node, with the node that led it before and was
        silent."""
        # Until it has begun, it has read nothing that others could ask for.
        self.follower = None
        follower = Follower(self.store, CATALOGUE_LANE, self.slot_settings)
        follower.on_warning = self.host.warn
        await follower.begin()
        self.follower = follower
        followed = self._newly_followed(follower)
        while True:
            if self._must_confirm:
                self._must_confirm, begun_s = False, self.now_s()
                if await follower.confirm():
                    followed = self._newly_followed(follower)
                self._confirmed_s = begun_s
            if await follower.look():
                followed = self._newly_followed(follower)
            else:
                followed.read_on(follower)
            is_led = self._is_led(follower, followed)
            is_heard = follower.silence.lasted_s < self.timing.doubt_s
            if not self.is_blind:
                # A checkpoint alone may tell of a leader, and of topics, of long ago.
                self._remember([*followed.standing_by, *_leader_of(followed)])
                has_changed = follower.slot != self._worked_in
                self.host.follow(followed, is_led=is_led and is_heard)
                if self.host.is_in_line:
                    self._worked_in = follower.slot
                    if has_changed and self.led_lanes():
                        # Somebody may wait until all have heard.
                        self.tell_leader()
                self._followed = followed
                self._hear()
            self._beat_to(followed.led_by if is_led else None)
            left_s = self._left_s(follower, followed)
            if left_s <= 0:
                try:
                    journal = await follower.take(
                        self.leader.node_id, self.randomness, only_silent=True
                    )
                except NotTaken:
                    followed.read_on(follower)
                else:
                    led_by = followed.led_by
                    gone = None
                    if led_by is not None and journal.may_miss_acknowledged:
                        gone = led_by.node_id
                    self._followed = None
                    return journal, followed if journal.is_continued else None, gone
            look_s = self.timing.look_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(look_s, left_s) if left_s > 0 else look_s):
                    await self.look_now.wait()
            self.look_now.clear()

    def _newly_followed(self, follower: Follower) -> FollowedLane:
        followed = FollowedLane(self.lane_settings, CATALOGUE_LANE, follower, self.levels.check)
        check_same(followed.cluster_id, self.cluster)
        return followed

    def _left_s(self, follower: Follower, followed: FollowedLane) -> float:
        if self.is_leaving:
            return math.inf
        seen = Seen(follower.epoch, follower.is_sealed, follower.successor)
        standing_by = [node.node_id for node in followed.standing_by]
        needed_s = self.timing.silence_s(seen, self.leader.node_id, standing_by)
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
            self._worked_in,
            self.is_leaving,
            self.led_lanes(),
            self.troubles(),
            [*self.leader.listeners],
        )

    @property
    def slot(self) -> int:
        """The next slot of lane 0 that this node will read."""
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

    async def _lead(self, lane: Lane, journal: SlotJournal, gone: int | None) -> None:
        """Until the lane is lost. Raises ClusterRefused."""
        self.levels.check(lane.view.level)
        self.follower = None
        self._beat_to(None)
        standing_by = lane.view.standing_by
        now_s, detection_s = self.now_s(), self.timing.detection_s
        membership = Membership(self.own, standing_by, detection_s, now_s, lane.view.listeners)
        placing = Placing(lane, membership, self.candidate, gone, detection_s)
        hearing = Hearing(self.own.node_id, lane, journal, membership, detection_s)
        self.led = Led(lane, journal, membership, placing, hearing, now_s)
        if lane.view.lanes.count > 1 or self.cluster.lane_count > 1:
            self.host.tell_by(hearing)
        self._alone_since(now_s)()
        self.leads.set()
        beats_s = now_s
        try:
            while not lane.has_left.is_set():
                self._remember(membership.live(self.now_s()))
                if lane.is_leading:
                    # While the store is away there may be no room; who waits is told all the same.
                    with contextlib.suppress(JournalFull):
                        self.note_standbys()
                        self._spread(placing)
                        self.place()
                        if self.now_s() >= beats_s:
                            lane.beat(self._alone_since(self.now_s()))
                if self.now_s() >= beats_s:
                    beats_s = self.now_s() + self.timing.beat_s
                self._hear()
                with contextlib.suppress(TimeoutError):
                    look_s = self.now_s() + self.timing.look_s
                    async with asyncio.timeout_at(min(look_s, beats_s)):
                        await lane.has_left.wait()
        finally:
            self.leads.clear()
            self.led = None
            placing.close()
        await lane.step_down()

    def _alone_since(self, since_s: float) -> Callable[[], None]:
        def passed() -> None:
            self._was_alone_s = max(self._was_alone_s, since_s)
            self.host.heard_all(since_s)

        return passed

    def _spread(self, placing: Placing) -> None:
        """Raises JournalFull, NotLeaderOrFollower."""
        if placing.lanes.count < self.cluster.lane_count:
            placing.add(self.cluster.lane_count)
        if placing.lanes.count > 1:
            assert self.led is not None
            self.host.tell_by(self.led.hearing)
            self.host.spread_over(placing.lanes.count)
            self.host.make_internal_topics()

    def note_standbys(self) -> None:
        """In lane 0, when there is something new to say. Raises JournalFull."""
        led = self.led
        if led is not None and led.lane.is_leading:
            now_s, membership = self.now_s(), led.membership
            noted = NoteStandbys.of(membership.live(now_s), membership.listeners(now_s))
            led.lane.submit(noted)

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
            successor = await prepared(candidates, self.reach, led.journal.slot, patience_s)
        except NotHandedOver as refused:
            return refused
        try:
            if led.lane.is_leading:
                await self.host.hand_over(led.lane, successor.address.node_id)
            leader = await successor.take_over(patience_s + TAKING_S_MAX)
        except TimeoutError:
            return NotHandedOver("the store does not answer: another takes over when it does")
        except NotHandedOver as refused:
            return refused
        finally:
            successor.close()
        self.host.hear_of_leader(leader)
        return leader


def _leader_of(followed: FollowedLane) -> list[NodeAddress]:
    return [] if followed.led_by is None else [followed.led_by.address]
