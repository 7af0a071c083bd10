"""What a lane does for transactions whose coordinator is in another lane.

A first write to a partition asks the coordinator. While it waits, anything may happen: so all is
decided again afterwards, and a request whose transaction was aborted meanwhile is refused, since
it could pass for one of the next. What stays open for long is asked for.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from semel.broker.answer import Call
from semel.broker.transactional import dialect, refuse_late
from semel.errors import (
    BY_CODE,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    JournalFailed,
    JournalFull,
    NotCoordinator,
    NotLeaderOrFollower,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from semel.lane.calls import (
    AskOutcomes,
    AskToAbort,
    AskToJoin,
    LaneAway,
    MayJoin,
    Outcome,
    Refused,
    Told,
)
from semel.lane.commands import Command
from semel.lane.joined import JoinedTransaction, LastEnded
from semel.lane.lane import Lane
from semel.lane.participating import (
    NO_TURN,
    EndJoined,
    ForgetEnds,
    Joining,
    MustJoin,
    MustWait,
    ended_already,
)
from semel.transactions.key import TransactionKey, Turn
from semel.types import ProducerId, TopicPartition

if TYPE_CHECKING:
    from semel.broker.broker import Broker

R = TypeVar("R")

PATIENCE_S: Final = 20.0
"""How long a write waits for its coordinator, or for the end of the transaction before."""

ASK_AGAIN_S: Final = 0.05
"""After a coordinator did not answer, or the transaction before was not over there."""

LOOK_S: Final = 0.5
OPEN_S: Final = 1.0
"""What is open for so long is asked for: its coordinator may have forgotten this lane, or died."""

ASKED_MAX: Final = 1_000
"""Keys in one call."""

HEARD_MAX: Final = 10_000
"""Producers of which it is remembered what was heard last."""

_LATER: Final = frozenset(
    each.code
    for each in (
        ConcurrentTransactions,
        CoordinatorLoadInProgress,
        CoordinatorNotAvailable,
        NotCoordinator,
    )
)
"""What a coordinator says that is to be asked again."""


class _Waiting:
    """A request of a producer that waits for its coordinator, or for an outcome."""

    __slots__ = (
        "changed",
        "ended",
        "is_void",
        "producer_epoch",
        "producer_id",
        "transactional_id",
        "until_s",
    )

    def __init__(self, joining: Joining) -> None:
        self.transactional_id = joining.transactional_id
        self.producer_id = joining.producer_id
        self.producer_epoch = joining.producer_epoch
        self.until_s = asyncio.get_running_loop().time() + PATIENCE_S
        self.is_void = False
        """Its transaction was aborted, and nothing is left that it could be part of."""
        self.ended = NO_TURN
        """The last transaction of the producer that was said to have ended meanwhile. It may not
        have been open here: a join that comes back with its key is too late."""
        self.changed = asyncio.Event()

    def check(self) -> None:
        """Raises refusals."""
        if self.is_void:
            raise ended_already(self.transactional_id)
        if asyncio.get_running_loop().time() >= self.until_s:
            raise ConcurrentTransactions(
                f"the last transaction of {self.transactional_id!r} has not ended here yet"
            )

    async def until_changed(self) -> None:
        """Or until it is late."""
        self.changed.clear()
        with contextlib.suppress(TimeoutError):
            # Which needs a task.
            await asyncio.sleep(0)
            async with asyncio.timeout_at(self.until_s):
                await self.changed.wait()


class Joins:
    def __init__(self, broker: "Broker", lane: Lane) -> None:
        self._broker = broker
        self._lane = lane
        self._waiting: dict[_Waiting, None] = {}
        self._heard: dict[ProducerId, Turn] = {}
        """The last transaction of producers that was said to have ended: said again, it voids
        nothing more."""
        self._is_watching = False
        self._is_forgetting = False
        self._left_open: set[TransactionKey] = set()

    def resume(self) -> None:
        """Ask for what an earlier leader has left open, at once: readers wait for its outcome."""
        self._left_open = {joined.key for joined in self._lane.view.all_joined()}
        self._watch()

    def leave(self) -> None:
        for waiting in self._waiting:
            waiting.changed.set()

    # Writing

    def try_at_once(
        self, call: Call, joining: Joining, command_of: Callable[[Joining], Command[R]]
    ) -> R:
        """As `write`, of what has joined already. Raises MustJoin or MustWait otherwise."""
        open_here = self._lane.view.joined(joining.producer_id)
        if open_here is not None and open_here.key.producer_epoch == joining.producer_epoch:
            refuse_late(self._broker, call, joining.producer_id, joining.producer_epoch)
        return self._lane.submit(command_of(joining))

    async def write(
        self, call: Call, joining: Joining, command_of: Callable[[Joining], Command[R]]
    ) -> R:
        """Append as soon as the coordinator lets it join. Raises refusals and JournalFull."""
        lane = self._lane
        waiting = _Waiting(joining)
        self._waiting[waiting] = None
        try:
            while True:
                lane.check_leads()
                waiting.check()
                if joining.key is not None:
                    # The coordinator has said that this is its epoch.
                    refuse_late(self._broker, call, joining.producer_id, joining.producer_epoch)
                try:
                    written = lane.submit(command_of(joining._replace(ended=waiting.ended)))
                except MustJoin as missing:
                    try:
                        key = await self._ask_to_join(call, joining, missing.partitions, waiting)
                    except UnknownTopicOrPartition:
                        if self._hosts(missing.partitions):
                            raise
                        # What was deleted meanwhile is refused by itself, and not the rest.
                        continue
                    joining = joining._replace(key=key)
                except MustWait:
                    await waiting.until_changed()
                    joining = joining._replace(key=None)
                else:
                    self._watch()
                    return written
        finally:
            del self._waiting[waiting]

    def _hosts(self, partitions: frozenset[TopicPartition]) -> bool:
        return all(self._lane.view.hosts_partition(*each) for each in partitions)

    async def _ask_to_join(
        self,
        call: Call,
        joining: Joining,
        partitions: frozenset[TopicPartition],
        waiting: _Waiting,
    ) -> TransactionKey:
        """The key. Raises refusals."""
        coordinator = self._broker.coordinators.lane_of_transactional_id(joining.transactional_id)
        asked = AskToJoin(
            joining.transactional_id,
            joining.producer_id,
            joining.producer_epoch,
            int(dialect(call)),
            tuple(sorted(partitions)),
            self._lane.number,
            self._lane.view.term,
        )
        while True:
            try:
                reply = await self._broker.peers.ask(coordinator, asked)
            except LaneAway:
                self._lane.check_leads()
                await asyncio.sleep(ASK_AGAIN_S)
                waiting.check()
                continue
            if isinstance(reply, MayJoin):
                return reply.key
            assert isinstance(reply, Refused), reply
            if reply.code not in _LATER:
                raise BY_CODE.get(reply.code, UnknownServerError)(reply.message)
            await asyncio.sleep(ASK_AGAIN_S)
            waiting.check()

    # Ending

    async def abort(self, joined: JoinedTransaction) -> None:
        """Have it aborted in all lanes, by its coordinator, for an operator. Raises refusals."""
        key = joined.key
        try:
            reply = await self._broker.peers.ask(key.lane, AskToAbort(key, joined.transactional_id))
        except LaneAway as error:
            raise CoordinatorNotAvailable(str(error)) from None
        if isinstance(reply, Refused):
            raise BY_CODE.get(reply.code, UnknownServerError)(reply.message)
        await self._ask(key.lane, (key,))

    def end(self, outcomes: tuple[Outcome, ...]) -> None:
        """What is open here by these keys ends so. Raises NotLeaderOrFollower or JournalFull."""
        self._lane.submit(EndJoined(outcomes))
        for outcome in outcomes:
            key = outcome.key
            for waiting in self._waiting:
                if waiting.producer_id == key.producer_id:
                    waiting.ended = max(waiting.ended, key.turn)
            heard = self._heard.pop(key.producer_id, NO_TURN)
            if key.turn > heard and not outcome.commit:
                self._void(key)
            self._heard[key.producer_id] = max(key.turn, heard)
            if len(self._heard) > HEARD_MAX:
                del self._heard[next(iter(self._heard))]

    def _void(self, key: TransactionKey) -> None:
        """The next transaction may begin when all lanes have heard of this abort. A TV1 client may
        keep its epoch, so that what waits here would pass for a part of the next."""
        for waiting in self._waiting:
            if (
                waiting.producer_id == key.producer_id
                and waiting.producer_epoch <= key.producer_epoch
            ):
                waiting.is_void = True
                waiting.changed.set()

    def ended(self, key: TransactionKey) -> None:
        """It is over here, whoever has said so."""
        for waiting in self._waiting:
            if waiting.producer_id == key.producer_id:
                waiting.changed.set()

    # Asking

    def _watch(self) -> None:
        if not self._is_watching and self._lane.view.has_joined:
            self._is_watching = True
            self._broker.start_task(self._ask_for_outcomes())

    async def _ask_for_outcomes(self) -> None:
        """While anything is open here: how what is open for long has ended."""
        lane = self._lane
        open_since_s: dict[TransactionKey, float] = {}
        loop = asyncio.get_running_loop()
        try:
            while lane.is_leading and lane.view.has_joined:
                now_s = loop.time()
                open_now = {each.key for each in lane.view.all_joined()}
                open_since_s = {key: open_since_s.get(key, now_s) for key in sorted(open_now)}
                by_lane: defaultdict[int, list[TransactionKey]] = defaultdict(list)
                for key, since_s in open_since_s.items():
                    if now_s - since_s >= OPEN_S or key in self._left_open:
                        by_lane[key.lane].append(key)
                for number, keys in by_lane.items():
                    for first in range(0, len(keys), ASKED_MAX):
                        await self._ask(number, tuple(keys[first : first + ASKED_MAX]))
                await asyncio.sleep(LOOK_S)
        except Exception as error:  # noqa: BLE001 - others must be served whatever it is.
            self._broker.complain("outcomes of transactions could not be asked for", error)
        finally:
            self._is_watching = False

    # Forgetting

    def forget(self, silent_since_ms: int) -> None:
        """How the last transactions ended of producers that are silent since then, once their
        coordinators can no longer ask."""
        if not self._is_forgetting:
            self._is_forgetting = True
            self._broker.start_task(self._forget(silent_since_ms))

    async def _forget(self, silent_since_ms: int) -> None:
        try:
            silent = self._lane.view.silent_ends(silent_since_ms)
            for first in range(0, len(silent), ASKED_MAX):
                await self._forget_some(silent[first : first + ASKED_MAX], silent_since_ms)
        except (LaneAway, NotLeaderOrFollower, JournalFull, JournalFailed):
            pass
        except Exception as error:  # noqa: BLE001 - others must be served whatever it is.
            self._broker.complain("the ends of old transactions could not be forgotten", error)
        finally:
            self._is_forgetting = False

    async def _forget_some(
        self, silent: list[tuple[ProducerId, LastEnded]], silent_since_ms: int
    ) -> None:
        by_lane: defaultdict[int, list[TransactionKey]] = defaultdict(list)
        forgotten = []
        for producer_id, last in silent:
            if last.committed is None:
                forgotten.append(producer_id)
            else:
                by_lane[last.committed.lane].append(last.committed)
        for number, keys in by_lane.items():
            reply = await self._broker.peers.ask(number, AskOutcomes(tuple(keys), True))
            if isinstance(reply, Told):
                # It has completed what it committed, and no crash takes that back.
                told = zip(keys, reply.outcomes, strict=True)
                forgotten += [key.producer_id for key, outcome in told if outcome is not None]
        if forgotten:
            self._lane.submit(ForgetEnds(tuple(forgotten), silent_since_ms))

    async def _ask(self, number: int, keys: tuple[TransactionKey, ...]) -> None:
        try:
            reply = await self._broker.peers.ask(number, AskOutcomes(keys))
            if isinstance(reply, Told):
                known = tuple(each for each in reply.outcomes if each is not None)
                if known:
                    self.end(known)
        except (LaneAway, NotLeaderOrFollower, JournalFull, JournalFailed):
            pass
