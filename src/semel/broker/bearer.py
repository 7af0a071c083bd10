"""Tokens that clients sign in with (OAUTHBEARER, KIP-255, KIP-768), and who has signed them.

Law: a token counts if one of the provider's public keys has signed it, by an algorithm for such
keys; if it is for us, of the issuer that was named, and still good. What it says of its own
algorithm or key decides nothing but which of the provider's keys is looked at.
"""

import asyncio
import json
from http.client import HTTPException
from typing import Any, Final, NamedTuple

from semel.access.sasl import Proven, SignInRefused
from semel.access.users import NAME_SIZE_MAX
from semel.broker import log
from semel.broker.key_endpoint import KeyEndpoint
from semel.broker.listeners import Listener
from semel.errors import ConfigError
from semel.world import Clock

ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Those whose keys may be known to everybody."""
PUBLIC_KINDS: Final = ("RSA", "EC", "OKP")
ASKED_AGAIN_S: Final = 60.0
"""For a key that is not known, or when the last attempt has failed."""
TOKEN_SIZE_MAX: Final = 16 * 2**10
END_S_MAX: Final = 253_402_300_799
"""The end of the year 9999. A fraction of a second may be said, as RFC 7519 has it."""
LIFETIME_MS_MAX: Final = 365 * 24 * 3_600_000
"""Of a session. Clients count it in nanoseconds: much more would be before the beginning."""
_ODD_CLAIMS: Final = (TypeError, ValueError, OverflowError, RecursionError)
"""What libraries raise besides, of numbers that are none and of what is nested too deep."""


class Keys:
    """Of one listener."""

    def __init__(self, listener: Listener, clock: Clock) -> None:
        """Raises ConfigError."""
        try:
            import jwt
        except ImportError:
            raise ConfigError(
                "OAUTHBEARER needs PyJWT, as `pip install '.[auth]'` does in a checkout"
            ) from None
        self._jwt: Any = jwt
        config = listener.config
        self._endpoint = KeyEndpoint(
            config.sasl_oauthbearer_jwks_endpoint_url, config.https_ca_location
        )
        self._issuer = config.sasl_oauthbearer_expected_issuer
        self._audiences = [
            each.strip() for each in config.sasl_oauthbearer_expected_audience.split(",")
        ]
        self._subject = config.sasl_oauthbearer_sub_claim_name
        self._skew_s = config.sasl_oauthbearer_clock_skew_seconds
        self._refresh_s = config.sasl_oauthbearer_jwks_endpoint_refresh_ms / 1000
        self._clock = clock
        self._keys: list[Any] = []
        self._read_s: float | None = None
        self._tried_s: float | None = None
        self._reading = asyncio.Lock()

    async def claimed(self, token: str) -> "Claim":
        """By which key the token says that it is signed, which takes next to nothing, or a wait
        for the keys. Raises SignInRefused, with nothing of the token but what it claims."""
        if len(token) > TOKEN_SIZE_MAX:
            raise SignInRefused(f"a token of {len(token)} characters")
        try:
            header = self._jwt.get_unverified_header(token)
        except (self._jwt.PyJWTError, ValueError, RecursionError):
            raise SignInRefused("it is no signed token") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise SignInRefused(f"the token is signed by {str(algorithm)[:40]!r}")
        return Claim(token, algorithm, await self._key(key_id))

    def proven(self, claim: "Claim") -> Proven:
        """Check the signature: a tenth of a millisecond or more. Raises SignInRefused."""
        key, algorithm = claim.key, claim.algorithm
        try:
            claims = self._jwt.decode(
                claim.token,
                key.key,
                # One key is of one algorithm, if it says of which.
                algorithms=[algorithm] if _fits(key, algorithm) else [],
                audience=self._audiences,
                issuer=self._issuer,
                leeway=self._skew_s,
                options={"require": ["exp", "iss", "aud", self._subject]},
            )
        except (self._jwt.PyJWTError, *_ODD_CLAIMS) as error:
            # The classes of PyJWT say what it is: ExpiredSignatureError, InvalidAudienceError.
            raise SignInRefused(f"the token does not hold: {type(error).__name__}") from None
        user = claims.get(self._subject)
        if not isinstance(user, str) or not 0 < len(user.encode()) <= NAME_SIZE_MAX:
            raise SignInRefused(f"the token does not say who it is in {self._subject!r}")
        left_ms = _end_ms(claims["exp"]) - self._clock.wall_ms()
        return Proven(user, lifetime_ms=min(max(1, left_ms), LIFETIME_MS_MAX))

    async def _key(self, key_id: Any) -> Any:
        """Raises SignInRefused."""
        now_s = self._now_s()
        is_old = self._read_s is None or now_s - self._read_s >= self._refresh_s
        is_missing = self._found(key_id) is None
        # Whoever reads them at the moment may find it.
        if (is_old or is_missing) and (
            self._may_ask(now_s) or (is_missing and self._reading.locked())
        ):
            async with self._reading:
                if self._may_ask(self._now_s()):
                    await self._read()
        found = self._found(key_id)
        if found is None:
            raise SignInRefused(f"no key {str(key_id)[:80]!r} is known that tokens are signed by")
        return found

    def _now_s(self) -> float:
        return self._clock.monotonic_ms() / 1000

    def _may_ask(self, now_s: float) -> bool:
        return self._tried_s is None or now_s - self._tried_s >= min(ASKED_AGAIN_S, self._refresh_s)

    def _found(self, key_id: Any) -> Any:
        if key_id is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((each for each in self._keys if each.key_id == key_id), None)

    async def _read(self) -> None:
        """What was read before stays if this fails."""
        self._tried_s = self._now_s()
        try:
            text = await asyncio.to_thread(self._endpoint.fetched)
            self._keys = self._parsed(text)
            self._read_s = self._tried_s
        except (OSError, HTTPException, ValueError, self._jwt.PyJWTError) as error:
            reason = str(getattr(error, "reason", None) or error)
            log.error("keys of tokens cannot be read", url=str(self._endpoint), reason=reason)

    def _parsed(self, text: bytes) -> list[Any]:
        found = json.loads(text)
        known = found.get("keys") if isinstance(found, dict) else None
        # A set may hold keys of other kinds, which others use. A secret one is none of ours.
        public = [
            each
            for each in (known if isinstance(known, list) else ())
            if isinstance(each, dict) and each.get("kty") in PUBLIC_KINDS
        ]
        if not public:
            raise ValueError("there is no public key in what is found there")
        return list(map(self._jwt.PyJWK, public))


class Claim(NamedTuple):
    """What a token says of itself, and nothing has proved yet."""

    token: str
    algorithm: str
    key: Any
    """The provider's that it names."""

    def __repr__(self) -> str:
        return f"Claim({self.algorithm}, …)"


def _end_ms(exp: object) -> int:
    """When a token ends. PyJWT takes a text for a number as well. Raises SignInRefused."""
    if isinstance(exp, bool) or not isinstance(exp, int | float) or not 0 < exp <= END_S_MAX:
        raise SignInRefused(f"the token says no time at which it ends, but {str(exp)[:40]!r}")
    return int(exp * 1000)


def _fits(key: Any, algorithm: str) -> bool:
    if key.key_type == "RSA":
        return algorithm[:2] in ("RS", "PS")
    return bool(algorithm == key.algorithm_name)
