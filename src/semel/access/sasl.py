"""Signing in by SASL, as the server sees it: SCRAM (RFC 5802) whole, and what others send.

Pure: messages in, messages out. Law: whoever does not exist is answered in every step as one who
does and gave a wrong password.
"""

import hashlib
import hmac
import json
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from typing import Final, NamedTuple

from semel.access.scram import ITERATIONS, SALT_SIZE, Credential, Mechanism, pretended
from semel.access.users import NAME_SIZE_MAX, UsersView, by_which_checked
from semel.errors import SemelError

NONCE_SIZE_MAX: Final = 1_024
PASSWORD_SIZE_MAX: Final = 1_024
INVALID_TOKEN: Final = json.dumps({"status": "invalid_token"}).encode()
"""What a client hears of a token that was refused, before the error (RFC 7628)."""


class SignInRefused(SemelError):
    """The reason, for our own log alone."""

    def __init__(self, reason: str, user: str = "") -> None:
        super().__init__(reason)
        self.user = user


class Proven(NamedTuple):
    """Somebody has said who they are, and it is so."""

    user: str
    reply: bytes = b""
    lifetime_ms: int | None = None
    """Of what proves it; None if that has no end."""
    credential: Credential | None = None
    """By which it was proved; None by a token."""


class Disguise:
    """How those look that there are not: as one of those that there are.

    What a server offers before it knows a password, a salt and a number of iterations, would tell
    who exists if it was of another kind for those who do not.
    """

    def __init__(self) -> None:
        self._seen: tuple[UsersView, int] | None = None
        self._shapes: Mapping[Mechanism, _Shapes] = {}
        self._rounds: Mapping[Mechanism, int] = {}

    def _look(self, users: UsersView) -> None:
        seen = self._seen
        if seen is None or seen[0] is not users or seen[1] != users.change_count:
            self._seen = (users, users.change_count)
            self._shapes = {mechanism: _Shapes(users, mechanism) for mechanism in Mechanism}
            self._rounds = _rounds(users)

    def check(self, users: UsersView, name: str) -> "PasswordCheck":
        """Of somebody who sends the password itself."""
        self._look(users)
        return PasswordCheck(by_which_checked(users.of(name)), self._rounds)

    def of(self, users: UsersView, name: str, mechanism: Mechanism, key: bytes) -> Credential:
        self._look(users)
        made = pretended(mechanism, name, users.salt_key or key)
        drawn = hmac.digest(users.salt_key or key, b"shape" + name.encode(), "sha512")
        iterations, salt_size = self._shapes[mechanism].drawn(int.from_bytes(drawn[:8], "big"))
        salt = hashlib.shake_256(made.salt).digest(salt_size)
        return made._replace(iterations=iterations, salt=salt)


class _Shapes:
    """Iterations and sizes of salts, each drawn as often as it is found."""

    def __init__(self, users: UsersView, mechanism: Mechanism) -> None:
        counts = {key[1:]: count for key, count in users.shapes.items() if key[0] is mechanism}
        self._shapes = sorted(counts) or [(ITERATIONS, SALT_SIZE)]
        self._ends = list(accumulate(counts.get(each, 1) for each in self._shapes))

    def drawn(self, number: int) -> tuple[int, int]:
        return self._shapes[bisect_right(self._ends, number % self._ends[-1])]


def _rounds(users: UsersView) -> dict[Mechanism, int]:
    """The most that the check of any user's password takes of each mechanism."""
    found: dict[Mechanism, int] = {}
    for mechanism, iterations in users.checks:
        found[mechanism] = max(found.get(mechanism, 0), iterations)
    return found or {Mechanism.SCRAM_SHA_256: ITERATIONS}


class PasswordCheck:
    """Law: it takes the same of everybody, of those who do not exist as well."""

    def __init__(self, kept: Credential | None, rounds: Mapping[Mechanism, int]) -> None:
        self.kept = kept
        """By which it is checked; None if there is no such user."""
        self._rounds = rounds

    def is_of(self, password: bytes) -> bool:
        """Whether this is the user's. Takes milliseconds."""
        kept = self.kept
        is_right = kept is not None and kept.is_of(password)
        for mechanism, most in self._rounds.items():
            spent = kept.iterations if kept is not None and kept.mechanism is mechanism else 0
            if (left := most - spent) > 0:
                hashlib.pbkdf2_hmac(mechanism.digest, password, bytes(SALT_SIZE), left)
        return is_right


class ScramExchange:
    """One sign-in. Law: its nonce is drawn for it alone, so that what was said once is of no use to
    whoever has heard it."""

    def __init__(
        self, mechanism: Mechanism, users: UsersView, disguise: Disguise, key: bytes, nonce: str
    ) -> None:
        """`key` is what the salts of unknown users come from before there is any user."""
        self._mechanism = mechanism
        self._users = users
        self._disguise = disguise
        self._key = key
        self._nonce = nonce
        self.user = ""
        self._is_known = False
        self.offered: Credential
        self._binding = ""
        self._said = ""
        """What both have said, and will prove that they have."""

    def first(self, message: bytes) -> bytes:
        """What the client is offered. Raises SignInRefused."""
        header, bare = _split_gs2(_text(message))
        fields = bare.split(",")
        if len(fields) < 2 or not fields[0].startswith("n=") or not fields[1].startswith("r="):
            raise SignInRefused("the first message of SCRAM is not one")
        self.user = _name(fields[0][2:])
        check_authorization(_authorization(header), self.user)
        if "tokenauth=true" in fields[2:]:
            raise SignInRefused("there are no delegation tokens", self.user)
        client_nonce = fields[1][2:]
        if not client_nonce.isascii() or not client_nonce.isprintable():
            raise SignInRefused("the nonce is not printable", self.user)
        if not 0 < len(client_nonce) <= NONCE_SIZE_MAX:
            raise SignInRefused("the nonce is empty, or too long", self.user)
        known = self._users.of(self.user).get(self._mechanism)
        self._is_known = known is not None
        # Made in any case: what it takes would tell who exists, as this is answered at once.
        disguised = self._disguise.of(self._users, self.user, self._mechanism, self._key)
        self.offered = known or disguised
        self._nonce = client_nonce + self._nonce
        salt = b64encode(self.offered.salt).decode()
        offer = f"r={self._nonce},s={salt},i={self.offered.iterations}"
        self._binding = b64encode(header.encode()).decode()
        self._said = f"{bare},{offer}"
        return offer.encode()

    def final(self, message: bytes) -> bytes:
        """What proves to the client that the server knows it, if it has proved itself. Raises
        SignInRefused."""
        text = _text(message)
        unproven, _, proof_text = text.rpartition(",p=")
        fields = unproven.split(",")
        if fields[:2] != [f"c={self._binding}", f"r={self._nonce}"]:
            raise SignInRefused("the proof is for another exchange", self.user)
        offered, digest = self.offered, self._mechanism.digest
        signed = f"{self._said},{unproven}".encode()
        try:
            proof = b64decode(proof_text, validate=True)
        except ValueError:
            proof = b""
        signature = hmac.digest(offered.stored_key, signed, digest)
        if len(proof) != len(signature):
            raise SignInRefused("the proof is of another size", self.user)
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        found = hashlib.new(digest, client_key).digest()
        is_right = hmac.compare_digest(found, offered.stored_key)
        if not self._is_known:
            raise SignInRefused(f"there is no such user with {self._mechanism.shown}", self.user)
        if not is_right:
            raise SignInRefused("the password is wrong", self.user)
        return b"v=" + b64encode(hmac.digest(offered.server_key, signed, digest))


class Plain(NamedTuple):
    """What came by PLAIN."""

    user: str
    password: bytes

    def __repr__(self) -> str:
        return f"Plain({self.user!r}, …)"


def read_plain(message: bytes) -> Plain:
    """Raises SignInRefused."""
    parts = message.split(b"\0")
    if len(parts) != 3:
        raise SignInRefused("a message of PLAIN has three parts")
    authorization, user, password = _text(parts[0]), _text(parts[1]), parts[2]
    if not user or len(parts[1]) > NAME_SIZE_MAX:
        raise SignInRefused("the name is empty, or too long")
    check_authorization(authorization, user)
    if not password or len(password) > PASSWORD_SIZE_MAX:
        raise SignInRefused("the password is empty, or too long", user)
    return Plain(user, password)


def read_bearer(message: bytes) -> tuple[str, str]:
    """The token, and for whom its owner wants to act, if that was said. Raises SignInRefused."""
    header, rest = _split_gs2(_text(message))
    token = ""
    for pair in rest.split("\x01"):
        name, equals, value = pair.partition("=")
        if not equals:
            continue
        if name.lower() == "auth":
            kind, _, token = value.partition(" ")
            if kind.lower() != "bearer":
                raise SignInRefused("the token is no bearer's")
            token = token.strip()
    if not token:
        raise SignInRefused("there is no token in it")
    return token, _authorization(header)


def check_authorization(authorization: str, user: str) -> None:
    """Raises SignInRefused if somebody would act for another."""
    if authorization not in ("", user):
        raise SignInRefused("nobody acts for another", user)


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise SignInRefused(f"the message is not UTF-8 at byte {error.start}") from None


def _split_gs2(message: str) -> tuple[str, str]:
    """The header, which says how the channel is bound and for whom one acts, and the rest."""
    binding, comma, rest = message.partition(",")
    authorization, other_comma, bare = rest.partition(",")
    if not comma or not other_comma or (authorization and not authorization.startswith("a=")):
        raise SignInRefused("the message has no header")
    if binding not in ("n", "y"):
        raise SignInRefused("channels are not bound")
    return f"{binding},{authorization},", bare


def _authorization(header: str) -> str:
    """For whom one acts; empty if that was not said."""
    said = header.split(",")[1]
    return _name(said[2:]) if said else ""


def _name(said: str) -> str:
    """Commas and equals signs are written otherwise."""
    name = said.replace("=2C", ",").replace("=3D", "\0")
    if "=" in name or not said or len(said.encode()) > 3 * NAME_SIZE_MAX:
        raise SignInRefused("the name is empty, too long, or not written as it should be")
    return name.replace("\0", "=")
