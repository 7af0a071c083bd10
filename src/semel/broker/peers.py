"""Where lanes reach each other, whoever leads them."""

from typing import TYPE_CHECKING

from semel.broker.lane_calls import answer_call
from semel.lane.calls import AnyCall, AnyReply, LaneAway

if TYPE_CHECKING:
    from semel.broker.broker import Broker


class Peers:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    async def ask(self, lane: int, call: AnyCall) -> AnyReply:
        """Raises LaneAway."""
        led = self._broker.lanes.by_number.get(lane)
        if led is None:
            raise LaneAway(f"nobody is known to lead lane {lane}")
        return await answer_call(self._broker, led, call)
