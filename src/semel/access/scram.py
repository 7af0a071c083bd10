"""SCRAM as the server needs it (RFC 5802, RFC 7677): what is kept of a password, and its check.

Of a password two keys are kept, from which nobody can sign in: who has them can only tell whether
another knows the password, and prove that it does.
"""

import enum
import hashlib
import hmac
from typing import Final, NamedTuple

ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
ITERATIONS: Final = 8_192
"""Where nobody says how many."""
SALT_SIZE: Final = 16
SALT_SIZE_MAX: Final = 1_024
_SECRET: Final = "…"
"""Stands for what is to appear nowhere."""


class Mechanism(enum.IntEnum):
    """With Kafka's number for it."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def digest(self) -> str:
        return "sha256" if self is Mechanism.SCRAM_SHA_256 else "sha512"

    @property
    def shown(self) -> str:
        """As SASL calls it."""
        return self.name.replace("_", "-")

    @property
    def key_size(self) -> int:
        return 32 if self is Mechanism.SCRAM_SHA_256 else 64


BY_NAME: Final = {mechanism.shown: mechanism for mechanism in Mechanism}


class Credential(NamedTuple):
    """What is kept of a user's password, for one mechanism."""

    mechanism: Mechanism
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"Credential({self.mechanism.shown}, {self.iterations} iterations, {_SECRET})"

    def is_of(self, password: bytes) -> bool:
        """Whether this is the password. Takes milliseconds."""
        made = credential(self.mechanism, password, self.salt, self.iterations)
        return hmac.compare_digest(made.stored_key, self.stored_key)


def credential(
    mechanism: Mechanism, password: bytes, salt: bytes, iterations: int = ITERATIONS
) -> Credential:
    """Of a password. Takes milliseconds."""
    salted = hashlib.pbkdf2_hmac(mechanism.digest, password, salt, iterations)
    return of_salted(mechanism, salted, salt, iterations)


def of_salted(mechanism: Mechanism, salted: bytes, salt: bytes, iterations: int) -> Credential:
    """Of a password that its owner has salted."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    stored_key = hashlib.new(mechanism.digest, client_key).digest()
    server_key = hmac.digest(salted, b"Server Key", mechanism.digest)
    return Credential(mechanism, iterations, salt, stored_key, server_key)


def pretended(mechanism: Mechanism, user: str, salt_key: bytes) -> Credential:
    """Of a user that there is not: it has the same salt each time, and no password."""
    drawn = hmac.digest(salt_key, f"{mechanism.shown}:{user}".encode(), "sha512")
    keys = hmac.digest(drawn, b"keys", "sha512")[: mechanism.key_size]
    return Credential(mechanism, ITERATIONS, drawn[:SALT_SIZE], keys, keys)
