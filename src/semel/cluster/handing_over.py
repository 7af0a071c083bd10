"""How a leader lets another lead: nothing is lost, nothing is aborted, and clients wait a moment.

    prepare     the successor is there, and has read nearly all
    seal        nothing is decided any more; what was is durable; the successor is named (rule 17)
    take over   it fences the lane at once, and says so when it leads

Whatever goes wrong behind the seal, the lane is taken as any other that was sealed.
"""

from collections.abc import Sequence

from semel.cluster.channel import Channel, NodeAway, Reach
from semel.cluster.membership import SLOTS_BEHIND_MAX
from semel.cluster.messages import Leads, Prepare, Ready, Refused, TakeOver
from semel.errors import SemelError
from semel.lane.leader import LedBy, NodeAddress
from semel.types import Term


class NotHandedOver(SemelError):
    """Nothing has changed, unless the message says so."""


class Successor:
    """A node that is ready to lead."""

    def __init__(self, address: NodeAddress, channel: Channel) -> None:
        self.address = address
        self._channel = channel

    async def take_over(self, patience_s: float) -> LedBy:
        """Behind the seal. Raises NotHandedOver."""
        node_id, host, port = self.address
        try:
            answer = await self._channel.ask(TakeOver(), patience_s)
        except NodeAway as error:
            reason = str(error)
        else:
            if isinstance(answer, Leads):
                return LedBy(Term(answer.epoch), node_id, host, port)
            reason = answer.reason if isinstance(answer, Refused) else "an answer to something else"
        raise NotHandedOver(
            f"node {node_id} was handed over to and does not say that it leads ({reason}): "
            f"it may yet, or another will after the detection time"
        )

    def close(self) -> None:
        self._channel.close()


async def prepared(
    candidates: Sequence[NodeAddress], reach: Reach, slot: int, patience_s: float
) -> Successor:
    """The first of them that is ready; the leader will write `slot` next. Raises NotHandedOver."""
    reasons: list[str] = []
    for address in candidates:
        reason = ""
        channel: Channel | None = None
        try:
            channel = await reach(address)
            answer = await channel.ask(Prepare(), patience_s)
        except NodeAway as error:
            reason = str(error)
        else:
            if isinstance(answer, Ready):
                behind = slot - answer.slot
                if behind <= SLOTS_BEHIND_MAX:
                    return Successor(address, channel)
                reason = f"it has {behind} slots to read yet"
            else:
                reason = answer.reason if isinstance(answer, Refused) else "it is not ready"
        if channel is not None:
            channel.close()
        reasons.append(f"node {address.node_id}: {reason}")
    raise NotHandedOver("; ".join(reasons) or "no other node stands by")
