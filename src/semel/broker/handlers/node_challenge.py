"""NodeChallenge (api key 20000), version 0: two nodes of a cluster begin to talk to each other.

Between the nodes of a cluster alone, and not advertised to clients. Both say a nonce; what is said
behind it carries a code of these and of the key that lies in the store.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import NO_MARKS, Answer, Call
from semel.broker.between import BETWEEN_WORKERS
from semel.errors import ProtocolError

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def node_challenge(broker: "Broker", nonce: bytes, call: Call) -> Answer:
    if broker.host.node is None:
        raise ProtocolError("this broker is not a node of a cluster")
    if not broker.host.hears_nodes(call.caller.listener):
        raise ProtocolError(f"nodes do not call at listener {call.caller.listener}")
    own_nonce, call.peer.session = broker.host.node.challenged(
        nonce, stays_on_machine=call.caller.listener == BETWEEN_WORKERS
    )
    return Answer(own_nonce, NO_MARKS)
