"""The life of a lane other than lane 0 on one node: taken where lane 0 has placed it, led, let go.

    Law: only the node on which lane 0 has placed a lane fences it, and only if it has heard so
    since it began to want it.

So nobody fights for it. Whoever leads it goes on until the node that it is placed on has read
nearly all and asks for it; then it seals, and nothing is lost or aborted (rule 17). It is not asked
if lane 0 says that it is gone, and not waited for if it does not answer.
"""

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from semel.cluster.channel import NodeAway
from semel.cluster.format import check_same
from semel.cluster.membership import SLOTS_BEHIND_MAX
from semel.cluster.messages import (
    AnyAnswer,
    Leading,
    LedLane,
    Ready,
    Refused,
    Release,
)
from semel.errors import (
    CorruptJournal,
    JournalFailed,
    JournalFull,
    NewerFormat,
    NotLeaderOrFollower,
)
from semel.journal.slots.following import Follower
from semel.journal.slots.journal import SlotJournal
from semel.journal.slots.opening import NotTaken
from semel.lane.following import FollowedLane
from semel.lane.lane import Lane
from semel.lane.leader import FIRST_LEVEL, LedBy, NodeAddress

if TYPE_CHECKING:
    from semel.cluster.node import Node

RATED_S: Final = 10.0
"""What is asked of the store at present is that of so long."""


class Led(NamedTuple):
    """What a node has of a lane while it leads it."""

    lane: Lane
    journal: SlotJournal


class _Counted(NamedTuple):
    at_s: float
    puts: int
    byte_count: int


class PlacedLane:
    def __init__(self, node: "Node", number: int) -> None:
        self.number = number
        self.led: Led | None = None
        self.trouble = ""
        """Why it cannot be taken, as far as it could be told."""
        self._node = node
        self._own_id = node.own.node_id
        self._counted: deque[_Counted] = deque()

    async def run(self) -> None:
        """Until it is cancelled. Raises ClusterRefused."""
        node = self._node
        leader = node.leader._replace(level=FIRST_LEVEL)
        while True:
            await self._until_placed_here()
            try:
                taken = await self._take()
                if taken is None:
                    continue
                journal, followed = taken
                lane = await node.host.take_journal(self.number, journal, leader, followed)
            except (CorruptJournal, NewerFormat) as error:
                # Whatever is wrong with one lane, the others are led.
                await self._be_in_trouble(error)
            except (JournalFailed, JournalFull, NotLeaderOrFollower):
                # Another has fenced it, or there is no room to drop what is deleted. Nobody was
                # served here.
                continue
            else:
                self.trouble = ""
                await self._lead(lane, journal)

    async def _be_in_trouble(self, error: Exception) -> None:
        if str(error) != self.trouble:
            self.trouble = str(error)
            self._node.host.warn(f"lane {self.number} cannot be led: {error}")
            self._node.tell_leader()
        await asyncio.sleep(self._node.timing.detection_s)

    # Taking

    @property
    def _is_placed_here(self) -> bool:
        if self._node.is_leaving:
            return False
        lanes = self._node.known_lanes
        placed = None if lanes is None else lanes.placed.get(self.number)
        return placed is not None and placed.node_id == self._own_id

    async def _until_placed_here(self) -> None:
        """What was heard before may be old: who was frozen, or has lost the lane, hears it anew."""
        node, since_s = self._node, now_s()
        while not (self._is_placed_here and node.has_heard_since(since_s)):
            await node.until_heard()

    async def _take(self) -> tuple[SlotJournal, FollowedLane | None] | None:
        """Fences the lane; None if it is placed elsewhere meanwhile. Raises CorruptJournal,
        NewerFormat, ClusterRefused."""
        node = self._node
        follower = Follower(node.store, self.number, node.slot_settings)
        follower.on_warning = node.host.warn
        await follower.begin()
        followed = await self._followed(follower)
        asking = _Asking(self._node, self.number)
        while self._is_placed_here:
            if await follower.look():
                followed = await self._followed(follower)
            else:
                await followed.read_on_in_pieces(follower)
            if follower.caught_up_s is None:
                continue
            if self._is_free(follower, followed) or await asking.gives_up(follower, followed):
                try:
                    journal = await follower.take(
                        self._own_id, node.randomness, only_silent=follower.is_sealed
                    )
                except NotTaken:
                    await followed.read_on_in_pieces(follower)
                else:
                    return journal, followed if journal.is_continued else None
            if not asking.has_released:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(node.timing.look_s):
                        await node.until_heard()
        return None

    async def _followed(self, follower: Follower) -> FollowedLane:
        followed = FollowedLane(self._node.lane_settings, self.number, follower, is_read=False)
        await followed.read_on_in_pieces(follower)
        check_same(followed.cluster_id, self._node.cluster)
        return followed

    def _is_free(self, follower: Follower, followed: FollowedLane) -> bool:
        """Nobody is to be asked for it."""
        led_by = followed.led_by
        return follower.is_sealed or led_by is None or led_by.node_id == self._own_id

    # Leading

    async def _lead(self, lane: Lane, journal: SlotJournal) -> None:
        """Until the lane is lost."""
        node = self._node
        self.led = Led(lane, journal)
        self._counted.clear()
        node.lane_taken(self)
        try:
            while not lane.has_left.is_set():
                if lane.is_leading:
                    # Who is fenced, or cut off, finds out although nobody asks.
                    lane.look_who_leads()
                    self._count(journal)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(node.timing.beat_s):
                        await lane.has_left.wait()
        finally:
            self.led = None
        await lane.step_down()
        node.lane_left()

    @property
    def led_by(self) -> LedBy | None:
        """This node, while it leads the lane."""
        if self.led is None:
            return None
        return LedBy(self.led.lane.view.epoch, *self._node.own)

    def leading(self) -> Leading:
        assert self.led is not None
        return Leading(self.number, self.led.lane.view.epoch, *self._node.own)

    async def release(self, asked: Release) -> AnyAnswer:
        """Let the node that asks lead, if lane 0 has placed the lane there."""
        led, node = self.led, self._node
        if led is None:
            return Refused(f"node {self._own_id} does not lead lane {self.number}")
        lanes = node.known_lanes
        placed = None if lanes is None else lanes.placed.get(self.number)
        if placed is None or placed.node_id != asked.node_id:
            node.look_now.set()
            return Refused(
                f"lane {self.number} is not placed on node {asked.node_id}, as far as node "
                f"{self._own_id} has heard",
                is_final=False,
            )
        behind = led.journal.slot - asked.slot
        if behind > SLOTS_BEHIND_MAX:
            return Refused(f"there are {behind} slots to read yet", is_final=False)
        if led.lane.is_leading:
            try:
                await node.host.hand_over(led.lane, asked.node_id)
            except TimeoutError:
                return Refused("the store does not answer", is_final=False)
        return Ready(led.journal.slot)

    # What is told of it

    def _count(self, journal: SlotJournal) -> None:
        counted, at_s = self._counted, now_s()
        counted.append(_Counted(at_s, journal.puts, journal.bytes_appended))
        while len(counted) > 2 and at_s - counted[1].at_s >= RATED_S:
            counted.popleft()

    def status(self) -> LedLane | None:
        """None if it is not led here."""
        if self.led is None:
            return None
        view, journal = self.led.lane.view, self.led.journal
        puts = bytes_written = 0.0
        if self._counted:
            first = self._counted[0]
            elapsed_s = now_s() - first.at_s
            if elapsed_s > 0:
                puts = (journal.puts - first.puts) / elapsed_s
                bytes_written = (journal.bytes_appended - first.byte_count) / elapsed_s
        return LedLane(self.number, view.epoch, view.term, journal.slot, puts, bytes_written)


class _Asking:
    """Asks the node that leads a lane to hand it over, as lane 0 has placed it here."""

    def __init__(self, node: "Node", number: int) -> None:
        self._node = node
        self._number = number
        self._began_s: float | None = None
        self.has_released = False
        """It has answered that it has: only the seal is to be read yet."""

    async def gives_up(self, follower: Follower, followed: FollowedLane) -> bool:
        """Whether who has led does so no more, for all that can be found out."""
        node, led_by = self._node, followed.led_by
        assert led_by is not None
        at_s, detection_s = now_s(), node.timing.detection_s
        if self._began_s is None:
            self._began_s = at_s
        left_s = self._began_s + detection_s - at_s
        if follower.epoch != led_by.epoch:
            # Who has fenced it comes to say so, unless it is gone.
            return left_s <= 0
        is_gone = led_by.address not in node.live_nodes
        answer = await self._asked(
            led_by.address, follower.slot, detection_s / 4 if is_gone else detection_s
        )
        self.has_released = isinstance(answer, Ready)
        if isinstance(answer, Refused) and answer.is_final:
            return True
        return not self.has_released and (left_s <= 0 or (answer is None and is_gone))

    async def _asked(self, address: NodeAddress, slot: int, patience_s: float) -> AnyAnswer | None:
        """None if it does not answer."""
        node, channel = self._node, None
        try:
            async with asyncio.timeout(patience_s):
                channel = await node.reach(address)
                asked = Release(self._number, node.own.node_id, slot)
                return await channel.ask(asked, patience_s)
        except (NodeAway, TimeoutError):
            return None
        finally:
            if channel is not None:
                channel.close()


def now_s() -> float:
    return asyncio.get_running_loop().time()
