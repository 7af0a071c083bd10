"""What lanes say to each other, held up and lost on the way, and said to those who led before."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from semel.broker.broker import Broker
from semel.broker.peers import ANSWER_S_MAX
from semel.cluster.channel import NodeAway
from semel.cluster.messages import LaneCall
from semel.lane.calls import (
    AnyCall,
    AnyReply,
    AskToJoin,
    AskToPrepare,
    LaneAway,
    Voted,
    encode_call,
)
from semel.lane.leader import LedBy
from semel.transactions.key import TransactionKey

HELD_S: Final = (0.01, 0.05, 0.05, 0.3, 0.3, 2.0)
VOTES_MAX: Final = 100
"""Transactions of which it is remembered who was asked to vote."""


@dataclass(frozen=True, slots=True)
class CallChances:
    """Of one call."""

    lost: float = 0.0
    held: float = 0.0
    """Before it is heard."""
    answer_lost: float = 0.0
    answer_held: float = 0.0
    doubled: float = 0.0
    """It is heard once more, much later."""
    vote_doubled: float = 0.0
    """The same, when a vote was asked for: by then the transaction may have ended."""
    join_held: float = 0.0
    """A join that was granted: whoever asked for it may have ended its transaction meanwhile."""
    vote_repeated: float = 0.0
    """A vote is asked for again, late, when another lane has voted no: by then it has ended so."""
    to_zombie: float = 0.0
    """If there is one who has led the lane that it is for, and does not know who leads it now."""
    copied_to_zombie: float = 0.0
    """The same, beside the call to who leads."""


QUIET: Final = CallChances()
TROUBLED: Final = CallChances(
    lost=0.005,
    held=0.005,
    answer_lost=0.005,
    answer_held=0.005,
    doubled=0.03,
    vote_doubled=0.03,
    join_held=0.01,
    vote_repeated=0.3,
    to_zombie=0.1,
    copied_to_zombie=0.5,
)
LATE: Final = CallChances(
    doubled=0.1,
    vote_doubled=0.6,
    join_held=0.5,
    vote_repeated=0.9,
    to_zombie=0.3,
    copied_to_zombie=0.9,
)
MOODS: Final = (QUIET, TROUBLED, LATE, LATE)


class TroubledCalls:
    """In the way of one process's calls."""

    def __init__(
        self,
        broker: Broker,
        rng: Random,
        chances: Callable[[], CallChances],
        zombie_of: Callable[[int], LedBy | None],
    ) -> None:
        self._broker = broker
        self._rng = rng
        self._chances = chances
        self._zombie_of = zombie_of
        self._ask = broker.peers.ask
        self._leader_of = broker.elsewhere.leader_of
        self._asked_to_vote: dict[TransactionKey, list[tuple[int, AskToPrepare]]] = {}
        """The latest, each with its lane."""
        broker.peers.ask = self.ask  # type: ignore[method-assign]
        broker.elsewhere.leader_of = self.leader_of  # type: ignore[method-assign]

    async def ask(self, lane: int, call: AnyCall) -> AnyReply:
        rng, chances = self._rng, self._chances()
        if rng.random() < chances.lost:
            raise LaneAway("lost on the way")
        if rng.random() < chances.held:
            await asyncio.sleep(rng.choice(HELD_S))
        zombie = self._zombie_of(lane)
        if zombie is not None and rng.random() < chances.copied_to_zombie:
            self._broker.start_task(self._tell_zombie(lane, call, zombie))
        reply = await self._ask_noting_votes(lane, call)
        is_vote = isinstance(call, AskToPrepare)
        if rng.random() < (chances.vote_doubled if is_vote else chances.doubled):
            self._broker.start_task(self._ask_again(lane, call))
        is_join = isinstance(call, AskToJoin)
        if rng.random() < (chances.join_held if is_join else chances.answer_held):
            await asyncio.sleep(rng.choice(HELD_S))
        if rng.random() < chances.answer_lost:
            raise LaneAway("the answer was lost on the way")
        return reply

    async def _ask_noting_votes(self, lane: int, call: AnyCall) -> AnyReply:
        if not isinstance(call, AskToPrepare):
            return await self._ask(lane, call)
        self._asked_to_vote.setdefault(call.key, []).append((lane, call))
        if len(self._asked_to_vote) > VOTES_MAX:
            del self._asked_to_vote[next(iter(self._asked_to_vote))]
        reply = await self._ask(lane, call)
        if reply == Voted(False):
            for each in self._asked_to_vote.pop(call.key, ()):
                if self._rng.random() < self._chances().vote_repeated:
                    self._broker.start_task(self._ask_again(*each))
        return reply

    async def _ask_again(self, lane: int, call: AnyCall) -> None:
        await asyncio.sleep(self._rng.choice(HELD_S))
        with contextlib.suppress(LaneAway):
            await self._ask(lane, call)

    async def _tell_zombie(self, lane: int, call: AnyCall, zombie: LedBy) -> None:
        """Whatever it answers."""
        lines = self._broker.peers.lines
        assert lines is not None
        with contextlib.suppress(NodeAway):
            said = LaneCall(lane, encode_call(call))
            await lines.ask((zombie.host, zombie.port), said, ANSWER_S_MAX)

    def leader_of(self, lane: int) -> LedBy | None:
        if self._rng.random() < self._chances().to_zombie:
            zombie = self._zombie_of(lane)
            if zombie is not None:
                return zombie
        return self._leader_of(lane)
