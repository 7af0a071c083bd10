"""How two nodes know that they talk to each other: pure, of the key that lies in the store.

Who can read the store is trusted with all that is in it, so its key makes a node. Both ends draw a
nonce for each connection; every call and every answer carries a code over what it says, which end
has said it and how many were said before, so that nothing can be made up, changed, repeated or sent
back. Nothing here is hidden from who listens: for that connections would need TLS.

Between processes of one machine nobody can get into a connection that is open: there the first call
and the first answer carry a code, and prove both ends for as long as it lasts.
"""

import hmac
from typing import Final

from semel.errors import ProtocolError

NONCE_SIZE: Final = 16
CODE_SIZE: Final = 32
_CALL: Final = b"call"
_ANSWER: Final = b"answer"


class WrongCode(ProtocolError):
    """This was not said by a node of the cluster."""


class Session:
    """One connection, as either of its ends sees it. Calls are answered in their order."""

    def __init__(
        self,
        key: bytes,
        caller_nonce: bytes,
        answerer_nonce: bytes,
        *,
        stays_on_machine: bool = False,
    ) -> None:
        if len(caller_nonce) != NONCE_SIZE or len(answerer_nonce) != NONCE_SIZE:
            raise WrongCode(f"a nonce has {NONCE_SIZE} bytes")
        self.key = key
        self._key = hmac.digest(key, b"session" + caller_nonce + answerer_nonce, "sha256")
        self._stays_on_machine = stays_on_machine
        self._counts = {_CALL: 0, _ANSWER: 0}

    def sign_call(self, said: bytes) -> bytes:
        return self._signed(_CALL, said)

    def open_call(self, signed: bytes) -> bytes:
        """Raises WrongCode."""
        return self._opened(_CALL, signed)

    def sign_answer(self, said: bytes) -> bytes:
        return self._signed(_ANSWER, said)

    def open_answer(self, signed: bytes) -> bytes:
        """Raises WrongCode."""
        return self._opened(_ANSWER, signed)

    def _signed(self, kind: bytes, said: bytes) -> bytes:
        if self._is_proven(kind):
            return said
        code = self._code(kind, said)
        self._counts[kind] += 1
        return code + said

    def _opened(self, kind: bytes, signed: bytes) -> bytes:
        if self._is_proven(kind):
            return signed
        code, said = signed[:CODE_SIZE], signed[CODE_SIZE:]
        if not hmac.compare_digest(code, self._code(kind, said)):
            raise WrongCode("a call between nodes does not carry the code of this cluster's key")
        self._counts[kind] += 1
        return said

    def _is_proven(self, kind: bytes) -> bool:
        """Who says this; a wrong code counts for nothing."""
        return self._stays_on_machine and self._counts[kind] > 0

    def _code(self, kind: bytes, said: bytes) -> bytes:
        count = self._counts[kind].to_bytes(8, "big")
        return hmac.digest(self._key, kind + count + said, "sha256")
