"""Where the calls of other nodes are answered."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from semel.cluster import messages
from semel.cluster.keys import KnownKey
from semel.cluster.messages import UNANSWERED, AnyAnswer, AnyRequest, LaneCall, Numbered, Refused
from semel.cluster.session import NONCE_SIZE, Session, WrongCode
from semel.world import Randomness


class Desk:
    def __init__(
        self,
        keys: KnownKey,
        randomness: Randomness,
        answer: Callable[[AnyRequest], Awaitable[AnyAnswer]],
    ) -> None:
        self._keys = keys
        self._randomness = randomness
        self._answer = answer

    def challenged(self, nonce: bytes, *, stays_on_machine: bool) -> tuple[bytes, Session]:
        """A nonce of ours for that of a caller, and what both make. Raises WrongCode."""
        own = self._randomness.token_bytes(NONCE_SIZE)
        return own, Session(self._keys.newest, nonce, own, stays_on_machine=stays_on_machine)

    def opened(self, session: Session, signed: bytes) -> bytes:
        """The request in what was signed. Raises WrongCode."""
        if session.key != self._keys.newest:
            raise WrongCode("the nodes of this cluster have a newer key by now")
        try:
            return session.open_call(signed)
        except WrongCode:
            self._keys.doubt()
            raise

    async def answered(self, asked: bytes) -> bytes | None:
        """None: nobody waits for it."""
        answer: AnyAnswer
        number = 0
        try:
            request = messages.decode_request(asked)
            if isinstance(request, Numbered):
                number = request.number
                request = messages.decode_request(request.said)
        except msgspec.DecodeError as error:
            answer = Refused(f"this version of Semel does not know such a call: {error}")
        else:
            if not isinstance(request, LaneCall):
                # It may take a task. What lanes say to each other is waited for, and needs none.
                await asyncio.sleep(0)
            answer = await self._answer(request)
        if number == UNANSWERED:
            return None
        said = messages.encode(answer)
        return messages.encode(Numbered(number, said)) if number else said
