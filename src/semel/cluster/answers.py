"""What a node answers to others, and to who steers the cluster."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from semel.cluster.handing_over import NotHandedOver
from semel.cluster.levels import Levels
from semel.cluster.membership import UNHEARD, NodeRefused
from semel.cluster.messages import (
    AnyAnswer,
    AnyRequest,
    Beat,
    Describe,
    Described,
    Drain,
    Goodbye,
    Heard,
    Leads,
    Move,
    NodeStatus,
    Prepare,
    Ready,
    Refused,
    TakeOver,
    Upgrade,
    Upgraded,
)
from semel.errors import JournalFull, NotLeaderOrFollower
from semel.lane.leader import LedBy
from semel.lane.nodes import RaiseLevel

if TYPE_CHECKING:
    from semel.cluster.node import Led, Node


class Answers:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self._by_request: dict[type, Callable[[Any], Awaitable[AnyAnswer]]] = {
            Beat: self._heard,
            Goodbye: self._heard_goodbye,
            Prepare: self._prepare,
            TakeOver: self._take_over,
            Move: self._move,
            Drain: self._drain,
            Describe: self._describe,
            Upgrade: self._upgrade,
        }

    async def answer(self, request: AnyRequest) -> AnyAnswer:
        answer = self._by_request.get(type(request))
        if answer is None:
            return Refused("a node of a cluster does not answer such calls")
        return await answer(request)

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
        with contextlib.suppress(JournalFull):
            self._node.note_standbys()
        return Heard(led.lane.view.epoch, led.journal.slot)

    async def _heard_goodbye(self, goodbye: Goodbye) -> AnyAnswer:
        led = self._node.led
        if led is None:
            return self._does_not_lead()
        led.membership.gone(goodbye.node_id, goodbye.incarnation)
        with contextlib.suppress(JournalFull):
            self._node.note_standbys()
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
        )

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

    async def _drain(self, drain: Drain) -> AnyAnswer:
        is_drained = self._node.is_drained = drain.is_drained
        led = self._node.led
        if led is None or not is_drained:
            return Ready(self._node.slot)
        candidates = led.membership.successors(self._node.now_s())
        handed_over = await self._node.hand_over(candidates)
        if isinstance(handed_over, NotHandedOver):
            self._node.is_drained = self._node.led is None
        return _told(handed_over)


def _told(handed_over: LedBy | NotHandedOver) -> AnyAnswer:
    if isinstance(handed_over, NotHandedOver):
        return Refused(str(handed_over))
    return Leads(handed_over.epoch, handed_over.node_id)
