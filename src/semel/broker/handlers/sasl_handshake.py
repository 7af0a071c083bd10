"""SaslHandshake (api key 17), version 1: which mechanism a client would sign in by.

v0  is known and refused: what followed it would not be framed as requests are
"""

from typing import TYPE_CHECKING

from semel.broker.answer import NO_MARKS, Answer, Call, Handled
from semel.errors import IllegalSaslState
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def sasl_handshake(broker: "Broker", request: SaslHandshakeRequest, call: Call) -> Handled:
    sign_in = call.peer.sign_in
    if sign_in is None:
        return Answer(SaslHandshakeResponse(IllegalSaslState.code), NO_MARKS)
    return sign_in.handshake(request.mechanism)
