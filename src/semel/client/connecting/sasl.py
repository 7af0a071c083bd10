"""Signing in by SASL, without a socket: each mechanism is a generator of the client's messages.

PLAIN is RFC 4616, SCRAM is RFC 5802 with the hashes of RFC 7677. A generator gets the server's
answers by `send`, and ends when it is convinced of the server.
"""

import base64
import hashlib
import hmac
from collections.abc import Generator

from semel.client.security import Sasl
from semel.errors import ConfigError, SaslAuthenticationFailed

Exchange = Generator[bytes, bytes, None]

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = ("PLAIN", *_HASHES)
_ITERATIONS_MIN = 4096
_GS2_HEADER = "n,,"  # No channel binding, and nobody else's rights.


def exchange(sasl: Sasl, nonce: str) -> Exchange:
    """The messages of the client; `nonce` has to be new each time."""
    if sasl.mechanism == "PLAIN":
        return _plain(sasl)
    if sasl.mechanism in _HASHES:
        return _scram(sasl, _HASHES[sasl.mechanism], nonce)
    raise ConfigError(f"SASL mechanism {sasl.mechanism!r}: it is one of {', '.join(MECHANISMS)}")


def _plain(sasl: Sasl) -> Exchange:
    yield f"\0{sasl.username}\0{sasl.password}".encode()


def _scram(sasl: Sasl, digest: str, nonce: str) -> Exchange:
    name = sasl.username.replace("=", "=3D").replace(",", "=2C")
    client_first = f"n={name},r={nonce}"
    server_first = (yield f"{_GS2_HEADER}{client_first}".encode()).decode()
    fields = _fields(server_first)
    salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
    if not fields["r"].startswith(nonce) or iterations < _ITERATIONS_MIN:
        raise SaslAuthenticationFailed(f"the broker's offer is not acceptable: {server_first}")
    binding = base64.b64encode(_GS2_HEADER.encode()).decode()
    client_final = f"c={binding},r={fields['r']}"
    signed = f"{client_first},{server_first},{client_final}".encode()
    salted = hashlib.pbkdf2_hmac(digest, sasl.password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    stored_key = hashlib.new(digest, client_key).digest()
    signature = hmac.digest(stored_key, signed, digest)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    answer = yield f"{client_final},p={base64.b64encode(proof).decode()}".encode()
    server_key = hmac.digest(salted, b"Server Key", digest)
    expected = hmac.digest(server_key, signed, digest)
    claimed = base64.b64decode(_fields(answer.decode()).get("v", ""))
    if not hmac.compare_digest(expected, claimed):
        raise SaslAuthenticationFailed(
            "the broker does not know the password: is it the right one?"
        )


def _fields(message: str) -> dict[str, str]:
    fields = dict(part.partition("=")[::2] for part in message.split(","))
    if "e" in fields:
        raise SaslAuthenticationFailed(f"the broker refused to sign in: {fields['e']}")
    return fields
