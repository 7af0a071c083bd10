"""SaslAuthenticate (api key 36), versions 0-2: one message of a sign-in.

v1  how long the session lasts (KIP-368); v2  flexible encoding
"""

from typing import TYPE_CHECKING

from semel.broker.answer import NO_MARKS, Answer, Call, Handled
from semel.errors import IllegalSaslState
from semel.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def sasl_authenticate(broker: "Broker", request: SaslAuthenticateRequest, call: Call) -> Handled:
    sign_in = call.peer.sign_in
    if sign_in is None:
        message = "nobody signs in at this listener"
        return Answer(SaslAuthenticateResponse(IllegalSaslState.code, message), NO_MARKS)
    return sign_in.authenticate(bytes(request.auth_bytes))
