"""NodeCall (api key 20001), version 0: what one node of a cluster asks of another.

Between the nodes of a cluster alone, and not advertised to clients. What is not signed with the
cluster's key ends the connection. An answer waits by itself for what makes it true
(`broker/lane_calls.py`, `broker/forwarding.py`), and so for no journal here: what else is said is
about who is alive, which harms nobody if it is so no more.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import NO_MARKS, Answer, Call, Handled
from semel.cluster.session import Session
from semel.errors import ProtocolError

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def node_call(broker: "Broker", signed: bytes, call: Call) -> Handled:
    session = call.peer.session
    if broker.host.node is None or session is None:
        raise ProtocolError("a call between nodes without a challenge")
    return _answer(broker, session, broker.host.node.opened(session, signed))


async def _answer(broker: "Broker", session: Session, asked: bytes) -> Answer:
    assert broker.host.node is not None
    said = await broker.host.node.answered(asked)
    return Answer(None if said is None else session.sign_answer(said), NO_MARKS)
