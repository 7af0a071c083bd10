"""What a lane's coordinator does for transactions over lanes.

A commit is prepared here and asked of all lanes at the same time, so that it takes no longer than
one of them. From then on only their votes decide: what nobody answers is asked again, by the next
process if need be. Then all are told, until each has confirmed that it can lose no more of it.
"""

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final

from semel.at_once import Awaited
from semel.errors import JournalFailed, JournalFull, NotCoordinator, NotLeaderOrFollower
from semel.lane.calls import (
    AskToPrepare,
    Confirmed,
    ConfirmEnds,
    Heard,
    LaneAway,
    Outcome,
    TellOutcomes,
    Voted,
)
from semel.lane.joined import outcomes_of
from semel.lane.lane import Lane
from semel.lane.participating import Confirm
from semel.lane.transactions import Transact, committed
from semel.transactions.commands import Complete, VoteDown
from semel.transactions.key import TransactionKey
from semel.transactions.transaction import JoinedLane, Status, Transaction
from semel.types import Position, ProducerId

if TYPE_CHECKING:
    from semel.broker.broker import Broker

RESEND_S: Final = 0.1
"""Until a lane that did not answer is asked again."""

HEARD_S: Final = 1.0
"""So long a client waits at most for lanes to hear that it has committed, so that it finds its
records there. It is committed whether they do or not; who leads them next asks before it answers
readers."""

TOLD_MAX: Final = 1_000
"""Outcomes in one call."""

CONFIRM_S: Final = 0.1
"""So long after a commit was told a lane is asked whether it can lose that no more, unless somebody
waits for it: by then its markers are stored beside what its clients wait for. Asked at once, it
would store them by themselves, and the next commit would wait for that."""


class Commits:
    def __init__(self, broker: "Broker", lane: Lane) -> None:
        self._broker = broker
        self._lane = lane
        self._deciding: dict[TransactionKey, _Deciding] = {}
        """What is under way, and who waits for it."""
        self._couriers: dict[int, _Courier] = {}
        self._unheard: dict[TransactionKey, _Unheard] = {}
        self._changed: dict[asyncio.Future[None], None] = {}
        """Who waits until fewer have to be told, or something is decided."""
        self._finishing_count = 0
        """Of these, who waits until all has ended."""

    def resume(self) -> None:
        """Go on with what an earlier leader has begun."""
        for current in self._lane.view.open_transactions():
            if current.status is Status.PREPARE_COMMIT:
                self.decide(current)
        for number, outcome in self._lane.view.unconfirmed():
            self._tell(number, outcome)

    def leave(self) -> None:
        for deciding in tuple(self._deciding.values()):
            deciding.refuse()
        self._wake()

    # Votes

    async def decide_and_tell(self, prepared: Transaction, *, is_repeated: bool) -> bool:
        """Whether it was committed. If whoever asks goes on from that, the answer comes as soon as
        nothing can undo it; to who has repeated the question when it is appended, too.

        Raises NotCoordinator if that is decided elsewhere.
        """
        decided: Awaited[bool] = Awaited()
        # Also if this is given up, as others may wait.
        if is_repeated:
            self.decide(prepared, repeating=decided)
        else:
            self.decide(prepared, client=decided)
        return await decided

    def decide(
        self,
        prepared: Transaction,
        client: Awaited[bool] | None = None,
        repeating: Awaited[bool] | None = None,
    ) -> None:
        """Begin to, unless that is under way, and tell these."""
        key = prepared.key
        assert key is not None
        known = self._deciding.get(key)
        deciding = known or _Deciding()
        if client is not None:
            deciding.clients.append(client)
        if repeating is not None:
            deciding.repeating.append(repeating)
        if known is None:
            self._deciding[key] = deciding
            # It may be over at once.
            self._broker.runs.begin(self._decide(prepared, key, deciding, self._lane.end))

    async def _decide(
        self,
        prepared: Transaction,
        key: TransactionKey,
        deciding: "_Deciding",
        position: Position,
    ) -> None:
        lane = self._lane
        try:
            # All at once: together they take one write.
            votes = [
                self._broker.runs.begin(self._vote(each, prepared, key))
                for each in prepared.joined_lanes
            ]
            await lane.until(partial(lane.when_durable, position))
            commit = all([await vote for vote in votes])
            await self._complete(prepared, key, commit=commit)
            deciding.tell_clients(commit=commit)
            deciding.tell_repeating(commit=commit)
        except (NotLeaderOrFollower, JournalFailed):
            # Whoever leads next asks again.
            pass
        except Exception as error:  # noqa: BLE001 - others must be served whatever it is.
            self._broker.complain("a commit over lanes failed", error)
        finally:
            if self._deciding.get(key) is deciding:
                del self._deciding[key]
            deciding.refuse()
            self._wake()

    async def _vote(self, joined: JoinedLane, prepared: Transaction, key: TransactionKey) -> bool:
        call = AskToPrepare(key, prepared.transactional_id, joined.term)
        while True:
            self._lane.check_leads()
            try:
                reply = await self._broker.peers.ask(joined.lane, call)
                if isinstance(reply, Voted):
                    return reply.yes
            except LaneAway:
                pass
            await asyncio.sleep(RESEND_S)

    async def _complete(self, prepared: Transaction, key: TransactionKey, *, commit: bool) -> None:
        """Nobody hears of an abort before it is durable. A commit is told before it is appended,
        as nothing can undo it: whoever finds it prepared asks again, and hears the same votes."""
        lane = self._lane
        if not commit:
            await self._append(prepared, VoteDown())
            await lane.until(lane.when_all_durable)
            return
        lane.check_leads()
        unheard = self._unheard[key] = _Unheard({each.lane for each in prepared.joined_lanes})
        try:
            for number, outcome in outcomes_of(committed(prepared, lane.view.term)):
                self._tell(number, outcome)
            if not unheard.lanes:
                self._deciding[key].tell_clients(commit=commit)
            await self._append(prepared, Complete())
            if unheard.lanes:
                loop = asyncio.get_running_loop()
                patience = loop.call_later(HEARD_S, unheard.heard.give, None)
                try:
                    await unheard.heard
                finally:
                    patience.cancel()
        finally:
            del self._unheard[key]

    async def _append(self, prepared: Transaction, command: Complete | VoteDown) -> None:
        while True:
            try:
                self._lane.submit(Transact(prepared.transactional_id, command))
            except JournalFull:
                await asyncio.sleep(RESEND_S)
            else:
                return

    # Telling

    def decided(self, lane_number: int, outcome: Outcome) -> None:
        """It is appended, and a lane has to be told."""
        if outcome.commit:
            self._tell(lane_number, outcome)
        else:
            # A crash could still make it a commit, if it was asked for.
            self._lane.when_all_durable(partial(self._tell, lane_number, outcome))

    def _tell(self, lane_number: int, outcome: Outcome) -> None:
        courier = self._couriers.get(lane_number)
        if courier is None:
            courier = self._couriers[lane_number] = _Courier(
                self, self._broker, self._lane, lane_number
            )
        courier.tell(outcome)

    def heard(self, lane_number: int, outcomes: tuple[Outcome, ...]) -> None:
        for outcome in outcomes:
            unheard = self._unheard.get(outcome.key)
            if unheard is not None:
                unheard.lanes.discard(lane_number)
                if not unheard.lanes:
                    unheard.heard.give(None)

    def confirmed(self, lane_number: int, outcomes: tuple[Outcome, ...]) -> None:
        self._lane.submit(Confirm(lane_number, tuple(each.key for each in outcomes)))
        self._wake()

    async def until_finished(self, producer_id: ProducerId, patience_s: float) -> bool:
        """Whether no other lane holds anything of this producer that has ended; False if patience
        is over before. Raises NotLeaderOrFollower."""
        self._finishing_count += 1
        try:
            async with asyncio.timeout(patience_s):
                while self._lane.view.is_unconfirmed(producer_id):
                    for courier in self._couriers.values():
                        courier.hurry()
                    await self._until_change()
                    self._lane.check_leads()
        except TimeoutError:
            return False
        finally:
            self._finishing_count -= 1
        return True

    @property
    def is_in_a_hurry(self) -> bool:
        """Somebody waits until lanes have confirmed what they were told."""
        return self._finishing_count > 0

    async def _until_change(self) -> None:
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changed[changed] = None
        try:
            await changed
        finally:
            del self._changed[changed]

    def _wake(self) -> None:
        for changed in self._changed:
            if not changed.done():
                changed.set_result(None)


class _Unheard:
    """Lanes that have not heard yet of what was committed, while a client waits for them."""

    def __init__(self, lanes: set[int]) -> None:
        self.lanes = lanes
        self.heard: Awaited[None] = Awaited()


class _Deciding:
    """Who waits for a decision."""

    def __init__(self) -> None:
        self.clients: list[Awaited[bool]] = []
        self.repeating: list[Awaited[bool]] = []

    def tell_clients(self, *, commit: bool) -> None:
        for each in self.clients:
            each.give(commit)

    def tell_repeating(self, *, commit: bool) -> None:
        for each in self.repeating:
            each.give(commit)

    def refuse(self) -> None:
        for each in (*self.clients, *self.repeating):
            each.fail(NotCoordinator("the transaction is led elsewhere now"))


class _Courier:
    """Tells one lane how transactions have ended, many in one call if they come together."""

    def __init__(self, commits: Commits, broker: "Broker", lane: Lane, to: int) -> None:
        self._commits = commits
        self._broker = broker
        self._lane = lane
        self._to = to
        self._untold: dict[TransactionKey, Outcome] = {}
        self._unconfirmed: dict[TransactionKey, Outcome] = {}
        self._unconfirmed_abort_count = 0
        self._is_telling = False
        self._is_confirming = False
        self._hurry = asyncio.Event()

    def hurry(self) -> None:
        """Somebody waits until this lane has confirmed what it was told."""
        self._hurry.set()

    def tell(self, outcome: Outcome) -> None:
        if outcome.key in self._unconfirmed:
            return  # It was told when it was decided, and is appended now.
        self._untold[outcome.key] = outcome
        if not self._is_telling:
            self._is_telling = True
            self._broker.runs.begin(self._until_told())

    async def _until_told(self) -> None:
        try:
            while self._untold and self._lane.is_leading:
                some = tuple(self._untold.values())[:TOLD_MAX]
                told = TellOutcomes(some)
                # Who leads there hears it before it decides what any client asks from here on.
                if not self._broker.peers.tell(self._to, told) and not await self._said(told):
                    await asyncio.sleep(RESEND_S)
                    continue
                for outcome in some:
                    del self._untold[outcome.key]
                    if outcome.key not in self._unconfirmed:
                        self._unconfirmed[outcome.key] = outcome
                        self._unconfirmed_abort_count += not outcome.commit
                if self._is_urgent:
                    self.hurry()
                self._commits.heard(self._to, some)
                if not self._is_confirming:
                    self._is_confirming = True
                    self._broker.start_task(self._until_confirmed())
        except Exception as error:  # noqa: BLE001 - others must be served whatever it is.
            self._broker.complain("the outcome of a transaction could not be told", error)
        finally:
            self._is_telling = False

    async def _until_confirmed(self) -> None:
        try:
            while self._unconfirmed and self._lane.is_leading:
                await self._until_due()
                some = tuple(self._unconfirmed.values())[:TOLD_MAX]
                if not await self._said(ConfirmEnds(some)):
                    await asyncio.sleep(RESEND_S)
                    continue
                try:
                    self._commits.confirmed(self._to, some)
                except (NotLeaderOrFollower, JournalFailed):
                    return
                except JournalFull:
                    await asyncio.sleep(RESEND_S)
                    continue
                for outcome in some:
                    self._unconfirmed_abort_count -= not outcome.commit
                    del self._unconfirmed[outcome.key]
        except Exception as error:  # noqa: BLE001 - others must be served whatever it is.
            self._broker.complain("the outcome of a transaction was not confirmed", error)
        finally:
            self._is_confirming = False

    @property
    def _is_urgent(self) -> bool:
        """The next transaction of a TV1 client waits for the confirmation of an abort."""
        return (
            self._commits.is_in_a_hurry
            or len(self._unconfirmed) >= TOLD_MAX
            or self._unconfirmed_abort_count > 0
        )

    async def _until_due(self) -> None:
        self._hurry.clear()
        if not self._is_urgent:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CONFIRM_S):
                    await self._hurry.wait()

    async def _said(self, call: TellOutcomes | ConfirmEnds) -> bool:
        try:
            return isinstance(await self._broker.peers.ask(self._to, call), Heard | Confirmed)
        except LaneAway:
            return False
