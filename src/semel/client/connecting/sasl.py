"""Signing in by SASL, without a socket: each mechanism is a generator of the client's messages.

PLAIN is RFC 4616, SCRAM is RFC 5802 with the hashes of RFC 7677, OAUTHBEARER is RFC 7628. A
generator gets the server's answers by `send`, and ends when it is convinced of the server.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Generator

from semel.errors import ConfigError, SaslAuthenticationFailed
from semel.security import Sasl

Exchange = Generator[bytes, bytes, None]

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = ("PLAIN", *_HASHES, OAUTHBEARER)
_ITERATIONS = range(4096, 1_000_001)
"""Fewer are too weak, and more would be an attack on whoever signs in."""
_STATUS_SIZE_MAX = 200
_GS2_HEADER = "n,,"  # No channel binding, and nobody else's rights.


def exchange(sasl: Sasl, nonce: str, token: str = "") -> Exchange:
    """The messages of the client; `nonce` has to be new each time, `token` is for OAUTHBEARER."""
    if sasl.mechanism == "PLAIN":
        return _plain(sasl)
    if sasl.mechanism in _HASHES:
        return _scram(sasl, _HASHES[sasl.mechanism], nonce)
    if sasl.mechanism == OAUTHBEARER:
        return _bearer(sasl, token)
    raise ConfigError(f"SASL mechanism {sasl.mechanism!r}: it is one of {', '.join(MECHANISMS)}")


def _plain(sasl: Sasl) -> Exchange:
    yield f"\0{sasl.username}\0{sasl.password}".encode()


def _bearer(sasl: Sasl, token: str) -> Exchange:
    extensions = "".join(f"\x01{name}={value}" for name, value in sasl.extensions)
    status = yield f"{_GS2_HEADER}\x01auth=Bearer {token}{extensions}\x01\x01".encode()
    if status:
        # A refusal takes two steps: the reason first, and the error behind this.
        yield b"\x01"
        raise SaslAuthenticationFailed(
            f"the broker refused the token: {status[:_STATUS_SIZE_MAX].decode(errors='replace')}"
        )


def _scram(sasl: Sasl, digest: str, nonce: str) -> Exchange:
    name = sasl.username.replace("=", "=3D").replace(",", "=2C")
    client_first = f"n={name},r={nonce}"
    server_first = (yield f"{_GS2_HEADER}{client_first}".encode()).decode()
    fields = _fields(server_first)
    try:
        salt, iterations, whole_nonce = b64decode(fields["s"]), int(fields["i"]), fields["r"]
    except (KeyError, ValueError):
        salt, iterations, whole_nonce = b"", 0, ""
    if not whole_nonce.startswith(nonce) or iterations not in _ITERATIONS:
        raise SaslAuthenticationFailed(f"the broker's offer is not acceptable: {server_first}")
    binding = b64encode(_GS2_HEADER.encode()).decode()
    client_final = f"c={binding},r={whole_nonce}"
    signed = f"{client_first},{server_first},{client_final}".encode()
    salted = hashlib.pbkdf2_hmac(digest, sasl.password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    stored_key = hashlib.new(digest, client_key).digest()
    signature = hmac.digest(stored_key, signed, digest)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    answer = yield f"{client_final},p={b64encode(proof).decode()}".encode()
    server_key = hmac.digest(salted, b"Server Key", digest)
    expected = hmac.digest(server_key, signed, digest)
    claimed = b64decode(_fields(answer.decode()).get("v", ""))
    if not hmac.compare_digest(expected, claimed):
        raise SaslAuthenticationFailed(
            "the broker does not know the password: is it the right one?"
        )


def _fields(message: str) -> dict[str, str]:
    fields = dict(part.partition("=")[::2] for part in message.split(","))
    if "e" in fields:
        raise SaslAuthenticationFailed(f"the broker refused to sign in: {fields['e']}")
    return fields
