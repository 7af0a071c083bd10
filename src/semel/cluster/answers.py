"""What a node answers to others, and to who steers the cluster."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from semel.cluster.handing_over import NotHandedOver
from semel.cluster.levels import SEVERAL_LANES, Levels
from semel.cluster.membership import UNHEARD, NodeRefused
from semel.cluster.messages import (
    AddLanes,
    AnyAnswer,
    AnyRequest,
    Balanced,
    Beat,
    Describe,
    Described,
    Drain,
    Forwarded,
    Goodbye,
    Heard,
    LaneCall,
    LaneCount,
    LaneStatus,
    Leading,
    Leads,
    Move,
    NodeStatus,
    Prepare,
    Ready,
    Rebalance,
    Refused,
    Release,
    TakeOver,
    Upgrade,
    Upgraded,
)
from semel.cluster.placement import LANES_MAX
from semel.errors import JournalFull, NotLeaderOrFollower
from semel.lane.leader import LedBy, NodeAddress
from semel.lane.nodes import RaiseLevel
from semel.types import Term

if TYPE_CHECKING:
    from semel.cluster.node import Led, Node

MOVING: Final = 4
"""Detection times. So long who moves a lane waits until it is led there."""


class Answers:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self._by_request: dict[type, Callable[[Any], Awaitable[AnyAnswer]]] = {
            Beat: self._heard,
            Goodbye: self._heard_goodbye,
            Prepare: self._prepare,
            TakeOver: self._take_over,
            Release: self._release,
            Leading: self._is_leading,
            LaneCall: self._node.host.answer_lane,
            Forwarded: self._node.host.answer_forwarded,
            Move: self._move,
            AddLanes: self._add_lanes,
            Rebalance: self._rebalance,
            Drain: self._drain,
            Describe: self._describe,
            Upgrade: self._upgrade,
        }

    async def answer(self, request: AnyRequest) -> AnyAnswer:
        answer = self._by_request.get(type(request))
        if answer is None:
            return Refused("a node of a cluster does not answer such calls")
        try:
            return await answer(request)
        except JournalFull as error:
            return Refused(str(error), is_final=False)
        except NotLeaderOrFollower:
            return self._does_not_lead()

    async def _heard(self, beat: Beat) -> AnyAnswer:
        led = self._node.led
        if led is None:
            return self._does_not_lead()
        level, levels = led.lane.view.level, Levels(*beat.levels)
        if not levels.can_read(level):
            return Refused(
                f"the cluster writes at level {level}, and node {beat.node_id} reads {levels}"
            )
        try:
            led.membership.heard(beat, self._node.now_s(), led.journal.slot)
        except NodeRefused as refused:
            return Refused(str(refused), refused.is_final)
        with contextlib.suppress(JournalFull, NotLeaderOrFollower):
            self._node.note_standbys()
            led.hearing.look()
            led.placing.heard_of(NodeAddress(beat.node_id, beat.host, beat.port), beat.lanes)
            self._node.place()
        return Heard(led.lane.view.epoch, led.journal.slot)

    async def _heard_goodbye(self, goodbye: Goodbye) -> AnyAnswer:
        led = self._node.led
        if led is None:
            return self._does_not_lead()
        led.membership.gone(goodbye.node_id, goodbye.incarnation)
        with contextlib.suppress(JournalFull, NotLeaderOrFollower):
            self._node.note_standbys()
            self._node.place()
        return Heard(led.lane.view.epoch, led.journal.slot)

    def _tells(self, led: "Led") -> Leads:
        return Leads(led.lane.view.epoch, self._node.own.node_id)

    def _does_not_lead(self) -> Refused:
        return Refused(f"node {self._node.own.node_id} does not lead", is_final=False)

    async def _prepare(self, _: Prepare) -> AnyAnswer:
        node = self._node
        if node.is_leaving or node.is_drained:
            return Refused(f"node {node.own.node_id} is not to lead")
        if node.follower is None:
            why = "has not begun to read" if node.led is None else "leads"
            return Refused(f"node {node.own.node_id} {why}")
        if node.is_blind:
            return Refused(f"node {node.own.node_id} cannot read the store")
        # What is left to be read is not to be waited for behind the seal.
        self._node.look_now.set()
        return Ready(self._node.slot)

    async def _take_over(self, _: TakeOver) -> AnyAnswer:
        self._node.look_now.set()
        try:
            async with asyncio.timeout(self._node.timing.detection_s):
                await self._node.leads.wait()
        except TimeoutError:
            return Refused(f"node {self._node.own.node_id} does not lead yet", is_final=False)
        led = self._node.led
        return self._does_not_lead() if led is None else self._tells(led)

    async def _describe(self, _: Describe) -> AnyAnswer:
        led = self._node.led
        if led is None:
            return self._does_not_lead()
        at_s, slot = self._node.now_s(), led.journal.slot
        nodes = [
            NodeStatus(
                *known.address,
                known.about,
                None if known.incarnation == UNHEARD else at_s - known.heard_s,
                known.slots_behind,
                known.is_drained,
                known.levels,
            )
            for known in led.membership.all_live(at_s)
        ]
        nodes.append(
            NodeStatus(
                *self._node.own,
                self._node.about(),
                None,
                0,
                self._node.is_drained,
                self._node.levels,
            )
        )
        nodes.sort(key=lambda node: node.node_id)
        view = led.lane.view
        return Described(
            self._node.own.node_id,
            view.epoch,
            view.term,
            at_s - led.since_s,
            slot,
            self._node.timing.detection_s,
            nodes,
            view.level,
            self._lanes(led),
        )

    def _lanes(self, led: "Led") -> list[LaneStatus]:
        node, view, lanes = self._node, led.lane.view, led.lane.view.lanes
        if lanes.count == 1:
            return []
        live = led.membership.all_live(node.now_s())
        told = {each.lane: each for known in live for each in known.lanes}
        told.update({each.lane: each for each in node.led_lanes()})
        troubles = {each.lane: each.reason for known in live for each in known.troubles}
        troubles.update({each.lane: each.reason for each in node.troubles()})
        found = [
            LaneStatus(0, node.own.node_id, view.epoch, view.term, led.journal.slot, None, False)
        ]
        for number in range(1, lanes.count):
            placed, led_by, its = (
                lanes.placed.get(number),
                lanes.taken.get(number),
                told.get(number),
            )
            if its is not None and (led_by is None or its.epoch != led_by.epoch):
                its = None
            found.append(
                LaneStatus(
                    number,
                    None if its is None or led_by is None else led_by.node_id,
                    -1 if led_by is None else led_by.epoch,
                    -1 if its is None else its.term,
                    -1 if its is None else its.slot,
                    None if placed is None else placed.node_id,
                    placed is not None and placed.is_pinned,
                    0.0 if its is None else its.puts,
                    0.0 if its is None else its.bytes_written,
                    troubles.get(number, ""),
                )
            )
        return found

    async def _upgrade(self, _: Upgrade) -> AnyAnswer:
        led, newest = self._node.led, self._node.levels.newest
        if led is None:
            return self._does_not_lead()
        for known in led.membership.all_live(self._node.now_s()):
            node_id = known.address.node_id
            if known.incarnation == UNHEARD:
                return Refused(f"node {node_id} was not heard of yet: try again in a moment")
            if not known.levels.can_read(newest):
                return Refused(
                    f"node {node_id} ({known.about.version}) reads {known.levels}, and not level "
                    f"{newest} of the leader: start it anew with the leader's version first"
                )
        try:
            led.lane.submit(RaiseLevel(newest))
            await led.lane.while_leading(led.lane.until_durable())
        except JournalFull as error:
            return Refused(str(error), is_final=False)
        except NotLeaderOrFollower:
            return self._does_not_lead()
        return Upgraded(led.lane.view.level) if led.lane.is_leading else self._does_not_lead()

    async def _move(self, move: Move) -> AnyAnswer:
        led, node_id = self._node.led, move.node_id
        if led is None:
            return self._does_not_lead()
        if move.lane:
            return await self._move_lane(led, move)
        if node_id == self._node.own.node_id:
            return self._tells(led)
        live = led.membership.live(self._node.now_s())
        chosen = [node for node in live if node.node_id == node_id]
        if not chosen:
            others = ", ".join(str(node.node_id) for node in live) or "none"
            return Refused(f"node {node_id} does not stand by; of the others: {others}")
        handed_over = await self._node.hand_over(chosen)
        if isinstance(handed_over, LedBy) and handed_over.node_id != node_id:
            # That was under way already. Who is told so asks the next leader.
            return Refused(
                f"node {self._node.own.node_id} has handed over to node {handed_over.node_id}",
                is_final=False,
            )
        return _told(handed_over)

    async def _move_lane(self, led: "Led", move: Move) -> AnyAnswer:
        number, node_id, lanes = move.lane, move.node_id, led.placing.lanes
        if not 0 < number < lanes.count:
            return Refused(f"there is no lane {number}, but lanes 0 to {lanes.count - 1}")
        able = [self._node.candidate().node_id]
        able += [node.node_id for node in led.membership.successors(self._node.now_s())]
        if node_id not in able:
            others = ", ".join(map(str, sorted(able))) or "none"
            return Refused(f"node {node_id} does not stand by; nodes that do: {others}")
        led.placing.place(number, node_id)
        try:
            async with asyncio.timeout(MOVING * self._node.timing.detection_s):
                await led.placing.until(lambda: led.placing.leaders().get(number) == node_id)
        except TimeoutError:
            return Refused(
                f"lane {number} is placed on node {node_id}, which does not say that it leads it: "
                f"it may yet",
            )
        led_by = lanes.taken.get(number)
        if led_by is None or led_by.node_id != node_id:
            return self._does_not_lead()
        return Leads(led_by.epoch, node_id)

    async def _release(self, release: Release) -> AnyAnswer:
        lane = self._node.lanes.get(release.lane)
        if lane is None:
            return Refused(f"node {self._node.own.node_id} does not lead lane {release.lane}")
        return await lane.release(release)

    async def _is_leading(self, leading: Leading) -> AnyAnswer:
        said = LedBy(Term(leading.epoch), leading.node_id, leading.host, leading.port)
        self._node.host.hear_of_leader(said, leading.lane)
        return Ready(self._node.slot)

    async def _add_lanes(self, added: AddLanes) -> AnyAnswer:
        led = self._node.led
        if led is None:
            return self._does_not_lead()
        level, count = led.lane.view.level, led.placing.lanes.count
        if added.lane_count > LANES_MAX:
            return Refused(f"{added.lane_count} lanes: more than {LANES_MAX}")
        if added.lane_count < count:
            return Refused(f"there are {count} lanes already, and there are never fewer")
        if level < SEVERAL_LANES and added.lane_count > 1:
            return Refused(
                f"the cluster writes at level {level}, which knows of one lane: see to it that all "
                f"nodes have a version that knows level {SEVERAL_LANES}, and say so by "
                f"`semel cluster upgrade`"
            )
        made = led.placing.add(added.lane_count)
        await led.lane.while_leading(led.lane.until_durable())
        return LaneCount(made) if led.lane.is_leading else self._does_not_lead()

    async def _rebalance(self, _: Rebalance) -> AnyAnswer:
        led = self._node.led
        if led is None:
            return self._does_not_lead()
        try:
            return Balanced(await led.placing.level())
        except TimeoutError:
            return Refused("a node does not take the lane that is placed there")

    async def _drain(self, drain: Drain) -> AnyAnswer:
        node = self._node
        is_drained = node.is_drained = drain.is_drained
        node.tell_leader()
        if is_drained:
            await node.let_go()
        led = node.led
        if led is None or not is_drained:
            return Ready(node.slot)
        candidates = led.membership.successors(node.now_s())
        handed_over = await self._node.hand_over(candidates)
        if isinstance(handed_over, NotHandedOver):
            self._node.is_drained = self._node.led is None
        return _told(handed_over)


def _told(handed_over: LedBy | NotHandedOver) -> AnyAnswer:
    if isinstance(handed_over, NotHandedOver):
        return Refused(str(handed_over))
    return Leads(handed_over.epoch, handed_over.node_id)
