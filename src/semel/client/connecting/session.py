"""Signing in over a connection, and how long that lasts."""

import asyncio
from typing import NamedTuple, Protocol, TypeVar

from semel.client.cluster.calls import raise_for
from semel.client.connecting.connection import Messages
from semel.client.connecting.sasl import OAUTHBEARER, exchange
from semel.client.connecting.tokens import forget_token, token_of
from semel.errors import ConfigError, SaslAuthenticationFailed
from semel.security import Sasl
from semel.wire.messages import sasl_authenticate, sasl_handshake
from semel.world import Randomness, SystemRandomness

_Request = TypeVar("_Request")
_Reply = TypeVar("_Reply")

_NONCE_SIZE = 16
_LIFETIME_SHARE_MIN = 0.85
_LIFETIME_SHARE_DRAWN = 0.1
"""Added in part, so that connections of one age do not all renew at once."""


class Call(Protocol):
    async def __call__(
        self, messages: Messages[_Request, _Reply], request: _Request, /
    ) -> _Reply: ...


class Session(NamedTuple):
    sasl: Sasl
    renewed_at_s: float | None
    """By the loop's clock; None: it has no end."""

    def is_due(self, now_s: float) -> bool:
        return self.renewed_at_s is not None and now_s >= self.renewed_at_s


async def sign_in(call: Call, subject: str, sasl: Sasl) -> Session:
    token = await _token(sasl)
    randomness = SystemRandomness()
    handshake = sasl_handshake.SaslHandshakeRequest(sasl.mechanism)
    offered = await call(sasl_handshake, handshake)
    if offered.error_code:
        mechanisms = ", ".join(offered.mechanisms) or "nothing"
        raise_for(
            offered.error_code, subject, f"it does not take {sasl.mechanism}: it has {mechanisms}"
        )
    messages = exchange(sasl, randomness.token_bytes(_NONCE_SIZE).hex(), token)
    message = next(messages)
    while True:
        request = sasl_authenticate.SaslAuthenticateRequest(message)
        asked_s = asyncio.get_running_loop().time()
        reply = await call(sasl_authenticate, request)
        try:
            raise_for(reply.error_code, subject, reply.error_message)
            message = messages.send(bytes(reply.auth_bytes))
        except SaslAuthenticationFailed:
            if sasl.token is not None:
                forget_token(sasl.token)
            raise
        except StopIteration:
            # It began no later than it was asked for.
            return Session(sasl, _renewed_at_s(asked_s, reply.session_lifetime_ms, randomness))


async def _token(sasl: Sasl) -> str:
    if sasl.mechanism != OAUTHBEARER:
        return ""
    if sasl.token is None:
        raise ConfigError("OAUTHBEARER signs in with a token: say where it comes from")
    return await token_of(sasl.token)


def _renewed_at_s(begun_s: float, lifetime_ms: int, randomness: Randomness) -> float | None:
    if lifetime_ms <= 0:
        return None
    drawn = randomness.token_bytes(1)[0] / 256
    share = _LIFETIME_SHARE_MIN + _LIFETIME_SHARE_DRAWN * drawn
    return begun_s + share * lifetime_ms / 1000
