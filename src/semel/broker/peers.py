"""Calls from lane to lane, to whichever process leads the other."""

from typing import TYPE_CHECKING, Final

import msgspec

from semel.broker.lane_calls import answer_call
from semel.broker.lines import Asking
from semel.cluster.channel import NodeAway
from semel.cluster.messages import AnyAnswer, LaneCall, LaneReply, Refused
from semel.lane.calls import (
    AnyCall,
    AnyReply,
    LaneAway,
    decode_call,
    decode_reply,
    encode_call,
    encode_reply,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker

ANSWER_S_MAX: Final = 5.0
"""So long a call may take before it is made again."""


class Peers:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.lines: Asking | None = None
        """To other nodes; None if there are none."""

    async def ask(self, lane: int, call: AnyCall) -> AnyReply:
        """Raises LaneAway."""
        led = self._broker.lanes.by_number.get(lane)
        if led is not None:
            return await answer_call(self._broker, led, call)
        led_by = self._broker.elsewhere.leader_of(lane)
        if led_by is None or self.lines is None:
            raise LaneAway(f"nobody is known to lead lane {lane}")
        said = LaneCall(lane, encode_call(call))
        try:
            answer = await self.lines.ask((led_by.host, led_by.port), said, ANSWER_S_MAX)
            if isinstance(answer, LaneReply):
                reply: AnyReply = decode_reply(answer.reply)
                return reply
        except (NodeAway, msgspec.DecodeError) as error:
            raise LaneAway(f"lane {lane}: {error}") from error
        raise LaneAway(f"lane {lane} is not led by node {led_by.node_id}: {answer}")

    def tell(self, lane: int, call: AnyCall) -> bool:
        """Say it without asking for an answer; whether it is there before whatever is said later on
        other ways, such as by a client. If not, it may arrive or not."""
        led_by = self._broker.elsewhere.leader_of(lane)
        if self.lines is None or led_by is None or lane in self._broker.lanes.by_number:
            return False
        return self.lines.tell((led_by.host, led_by.port), LaneCall(lane, encode_call(call)))

    async def answer(self, asked: LaneCall) -> AnyAnswer:
        """What a lane elsewhere asks one that is led here."""
        lane = self._broker.lanes.by_number.get(asked.lane)
        if lane is None:
            return Refused(f"lane {asked.lane} is not led here", is_final=False)
        try:
            call = decode_call(asked.call)
        except msgspec.MsgspecError as error:
            return Refused(f"this version of Semel does not know such a call: {error}")
        try:
            return LaneReply(encode_reply(await answer_call(self._broker, lane, call)))
        except LaneAway as error:
            return Refused(str(error), is_final=False)
