"""Tokens to sign in with: of a function, of a file, or of an OpenID provider.

A provider's token is used again until four fifths of its life are over, as Kafka's own client
does; whoever needs one next then waits for a fresh one.
"""

import asyncio
import base64
import binascii
import json
import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from semel.errors import ConfigError, SaslAuthenticationFailed
from semel.security import ClientCredentials, TokenSource
from semel.spelling import shown_url
from semel.world import SystemClock

_TOKEN = re.compile(r"[-._~+/A-Za-z0-9]+=*")
_FRESH_SHARE = 0.8


async def token_of(source: TokenSource) -> str:
    """Raises NetworkException if another attempt may get one."""
    return await asyncio.to_thread(_token_of, source)


def forget_token(source: TokenSource) -> None:
    """A broker has refused it: the next one is asked for anew."""
    if isinstance(source, ClientCredentials):
        _cached.pop(source, None)


def _token_of(source: TokenSource) -> str:
    if isinstance(source, ClientCredentials):
        return _of_provider(source)
    if isinstance(source, Path):
        return _checked(_of_file(source), f"the token in {source}")
    return _checked(_of_function(source), "the token that the function gave")


def _of_function(source: Callable[[], str]) -> str:
    try:
        return source()
    except Exception as error:
        raise SaslAuthenticationFailed(
            f"the function that gives the token failed: {type(error).__name__}: {error}"
        ) from error


def _of_file(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise ConfigError(f"the token in {file}: {(error.strerror or '').lower()}") from None


def _checked(token: object, subject: str) -> str:
    # The token itself is not shown.
    if not isinstance(token, str):
        raise ConfigError(f"{subject} is text, and not of type {type(token).__name__}")
    if not _TOKEN.fullmatch(token):
        raise ConfigError(f"{subject} is empty, or has characters that no token has")
    return token


class _Cached(NamedTuple):
    token: str
    fresh_until_ms: float


_cached: dict[ClientCredentials, _Cached] = {}
_asking: dict[ClientCredentials, threading.Lock] = {}
"""One at a time, so that many connections ask for one token together."""


def _of_provider(credentials: ClientCredentials) -> str:
    clock = SystemClock()
    with _asking.setdefault(credentials, threading.Lock()):
        known = _cached.get(credentials)
        if known is not None and clock.monotonic_ms() < known.fresh_until_ms:
            return known.token
        asked_ms = clock.monotonic_ms()
        endpoint = shown_url(credentials.token_endpoint)
        # Late, as few clients need it, and whatever Spark starts would load it.
        from semel.client.connecting.token_endpoint import ask

        reply = ask(credentials, endpoint)
        token = _checked(reply.get("access_token"), f"the token that {endpoint} gave")
        lifetime_ms = _lifetime_ms(reply, token, clock)
        _cached[credentials] = _Cached(token, asked_ms + _FRESH_SHARE * lifetime_ms)
        return token


def _lifetime_ms(reply: dict[str, Any], token: str, clock: SystemClock) -> float:
    """As the provider says, or as the token itself does; 0 if neither does."""
    if isinstance(expires_in_s := reply.get("expires_in"), int | float):
        return expires_in_s * 1000.0
    with suppress(IndexError, ValueError, binascii.Error):
        body = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        if isinstance(claims, dict) and isinstance(expiry_s := claims.get("exp"), int | float):
            return expiry_s * 1000.0 - clock.wall_ms()
    return 0.0


# A lock that another thread held at the fork would never be free.
os.register_at_fork(after_in_child=_asking.clear)
