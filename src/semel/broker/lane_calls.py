"""Answers what other lanes ask of a lane that is led here."""

from typing import TYPE_CHECKING

from semel.errors import CoordinatorNotAvailable
from semel.lane.calls import AnyCall, AnyReply, Refused
from semel.lane.lane import Lane

if TYPE_CHECKING:
    from semel.broker.broker import Broker


async def answer_call(broker: "Broker", lane: Lane, call: AnyCall) -> AnyReply:
    """Answer when what the reply says holds: written, durable, or behind a barrier.

    Raises LaneAway if the lane steps down meanwhile; then whoever asks asks again.
    """
    return Refused(CoordinatorNotAvailable.code, f"lane {lane.number} takes part in no other")
