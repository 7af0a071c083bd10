"""The life of a node: it follows the lane and stands by, leads it, and follows it again.

Only lane 0 is fought for. Whoever has seen it silent for the detection time fences it; of those
who try at once the store lets one. A leader that finds another's entry, or cannot find out for
the detection time that there is none, steps down, and nothing of what it held counts any more.
"""

import asyncio
import contextlib
from typing import Final, Protocol

from semel.cluster.beating import Beating
from semel.cluster.channel import Connect
from semel.cluster.desk import Desk
from semel.cluster.format import ClusterFormat, check_same
from semel.cluster.membership import Membership, NodeRefused
from semel.cluster.messages import AnyAnswer, AnyRequest, Beat, Heard, Refused
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


class Host(Protocol):
    """The broker, as far as its node steers it."""

    node: Desk | None

    def follow(self, followed: FollowedLane, *, is_led: bool) -> None: ...

    async def take_journal(
        self, number: int, journal: Journal, leader: Leader, followed: FollowedLane | None
    ) -> Lane: ...


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
        self._own = NodeAddress(leader.node_id, leader.host, leader.port)
        self._incarnation = randomness.token_bytes(INCARNATION_SIZE)
        self._follower: Follower | None = None
        self._membership: Membership | None = None
        """While it leads: who stands by."""
        self._lane: Lane | None = None
        self._beating: Beating | None = None
        if connect is not None:
            key = cluster.rpc_key
            self._beating = Beating(connect, key, randomness, timing, self._own_beat)
            host.node = Desk(key, randomness, self._answer)

    async def run(self) -> None:
        """Until it is cancelled. Raises CorruptJournal, NewerFormat, ClusterRefused."""
        async with asyncio.TaskGroup() as tasks:
            if self._beating is not None:
                tasks.create_task(self._beating.run())
            tasks.create_task(self._live())

    async def _live(self) -> None:
        while True:
            journal, followed = await self._stand_by()
            try:
                lane = await self._host.take_journal(LANE, journal, self._leader, followed)
            except (JournalFailed, NotLeaderOrFollower):
                # Another was faster, before anybody was served here.
                continue
            await self._lead(lane)

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
            await asyncio.sleep(min(look_s, left_s) if left_s > 0 else look_s)

    def _followed(self, follower: Follower) -> FollowedLane:
        followed = FollowedLane(self._lane_settings, LANE, follower)
        check_same(followed.cluster_id, self._cluster)
        return followed

    def _left_s(self, follower: Follower, followed: FollowedLane) -> float:
        seen = Seen(follower.epoch, follower.is_sealed, follower.successor)
        standing_by = [node.node_id for node in followed.standing_by]
        needed_s = self._timing.silence_s(seen, self._leader.node_id, standing_by)
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
        own, follower = self._own, self._follower
        slot = 0 if follower is None else follower.slot
        return Beat(own.node_id, self._incarnation, own.host, own.port, slot)

    # Leading

    async def _lead(self, lane: Lane) -> None:
        """Until the lane is lost."""
        self._follower = None
        self._beat_to(None)
        self._lane = lane
        self._membership = Membership(
            self._own, lane.view.standing_by, self._timing.detection_s, _now_s()
        )
        try:
            while not lane.has_left.is_set():
                # While the store is away there may be no room; who waits then is told as well.
                with contextlib.suppress(JournalFull):
                    self._note_standbys()
                    lane.beat(_passed)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._timing.beat_s):
                        await lane.has_left.wait()
        finally:
            self._membership = self._lane = None
        await lane.step_down()

    def _note_standbys(self) -> None:
        """In lane 0, when there is something new to say. Raises JournalFull."""
        lane, membership = self._lane, self._membership
        if lane is not None and membership is not None and lane.is_leading:
            lane.submit(NoteStandbys.of(membership.live(_now_s())))

    # What other nodes ask

    async def _answer(self, request: AnyRequest) -> AnyAnswer:
        return self._heard(request)

    def _heard(self, beat: Beat) -> AnyAnswer:
        lane, membership = self._lane, self._membership
        if lane is None or membership is None:
            return Refused(f"node {self._own.node_id} does not lead", is_final=False)
        try:
            membership.heard(beat, _now_s())
        except NodeRefused as refused:
            return Refused(str(refused), refused.is_final)
        with contextlib.suppress(JournalFull):
            self._note_standbys()
        return Heard(lane.view.epoch, 0)


def _passed() -> None:
    """That it was said is enough."""


def _now_s() -> float:
    return asyncio.get_running_loop().time()
