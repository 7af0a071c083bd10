"""Where members of groups wait for each other: a ticket for each request, a reply for each.

Volatile: who waits is lost with the process, or when the lane is led elsewhere.
"""

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from semel.errors import (
    CoordinatorNotAvailable,
    FrameTooLarge,
    InvalidCommitOffsetSize,
    JournalFull,
    MemberIdRequired,
    RequestError,
)
from semel.groups.commands import (
    TOKEN_SIZE,
    CommitOffsets,
    Expire,
    ForgetIds,
    ForgetTicket,
    Join,
    Reply,
    Request,
    Ticket,
)
from semel.groups.deciding import GroupDecision
from semel.lane.commands import Claim
from semel.lane.frame import ENTRY_SIZE
from semel.lane.group_commands import AskGroups
from semel.lane.state import LaneState
from semel.types import OFFSETS_TOPIC, GroupId, MemberId
from semel.world import Randomness

if TYPE_CHECKING:
    from semel.lane.lane import Lane, Mark

Kind = TypeVar("Kind", bound=Reply)

EXPIRED_SIZE_MAX: Final = 64 * 2**10
"""Bytes of records that end what is due in one step. On a full disk it has to fit what is kept for
ends, and nobody should wait long behind it."""


class Replied(NamedTuple):
    reply: Any
    mark: "Mark"
    """The reply may leave when the journal is durable up to here."""


class WaitingRoom:
    def __init__(
        self, lane: "Lane", state: LaneState, randomness: Randomness, changed: asyncio.Event
    ) -> None:
        self._lane = lane
        self._state = state
        self._randomness = randomness
        self._last_ticket = 0
        self._waiting: dict[Ticket, asyncio.Future[Replied]] = {}
        self._named: defaultdict[int, defaultdict[GroupId, set[MemberId]]] = defaultdict(
            lambda: defaultdict(set)
        )
        """Ids given out and not used yet, by the number of the connection that asked."""
        self._changed = changed
        """Set when a step has brought the groups' next deadline before `next_look_ms`."""
        self.next_look_ms = 0
        """When housekeeping looks at the deadlines next if nothing has changed."""

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def ask(self, command: Request) -> "Replied | asyncio.Future[Replied]":
        """Decide now. Gives the reply if there is one already, else the future of it.

        Raises CoordinatorNotAvailable, with nothing changed, if the disk has no room, and
        InvalidCommitOffsetSize for offsets that no frame could hold.
        """
        self._last_ticket += 1
        ticket = Ticket(self._last_ticket)
        try:
            decided = self._lane.submit(AskGroups(command, ticket))
        except JournalFull as error:
            if isinstance(error, FrameTooLarge) and isinstance(command, CommitOffsets):
                raise InvalidCommitOffsetSize(str(error)) from error
            raise CoordinatorNotAvailable(str(error)) from error
        own = self._hand_out(decided, ticket)
        if own is not None:
            return own
        future: asyncio.Future[Replied] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = future
        future.add_done_callback(lambda done: self._left(ticket, done))
        return future

    def ask_for(self, command: Request, kind: type[Kind]) -> Kind:
        """As `ask`, of a command that never has to wait."""
        replied = self.ask(command)
        assert isinstance(replied, Replied), f"{type(command).__name__} was left waiting"
        return cast(Kind, replied.reply)

    def join(self, command: Join, connection_number: int) -> "Replied | asyncio.Future[Replied]":
        """As `ask`. A new id is good for as long as the connection that asked for it."""
        named = self._named[connection_number][command.group_id]
        named.discard(command.member_id)
        if not command.member_id:
            token = self._randomness.token_bytes(TOKEN_SIZE)
            command = command._replace(token=token)
        replied = self.ask(command)
        if isinstance(replied, Replied) and replied.reply.error_code == MemberIdRequired.code:
            named.add(replied.reply.member_id)
        return replied

    def disconnected(self, connection_number: int) -> None:
        """Who was only given an id does not come back for it: let the others not wait."""
        for group_id, member_ids in self._named.pop(connection_number, {}).items():
            if member_ids:
                self._forget(ForgetIds(group_id, tuple(sorted(member_ids))))

    def expire(self, due_ms: int) -> None:
        """Do what was due then: sessions, rebalances, offsets; on a full disk, what fits."""
        batch_count_max = self._state.partition_counts.get(OFFSETS_TOPIC, 0)
        size_max = self._lane.room(Claim.ENDING) - ENTRY_SIZE * batch_count_max
        self._unasked(Expire(due_ms, max(0, min(size_max, EXPIRED_SIZE_MAX))))

    def dismiss(self, refusal: RequestError) -> None:
        """Nobody here will hear from the others any more: the lane is led elsewhere."""
        self._named.clear()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(refusal)

    def _unasked(self, command: Expire | ForgetTicket | ForgetIds) -> None:
        self._hand_out(self._lane.submit(AskGroups(command)), None)

    def _hand_out(self, decided: GroupDecision, own_ticket: Ticket | None) -> Replied | None:
        """Give each waiting request its reply; the one just asked gets its own returned."""
        mark = self._lane.mark()
        deadline_ms = self._state.groups.next_deadline_ms()
        if deadline_ms is not None and deadline_ms < self.next_look_ms:
            self._changed.set()
        own = None
        for ticket, reply in decided.replies:
            if ticket == own_ticket:
                own = Replied(reply, mark)
                continue
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                future.set_result(Replied(reply, mark))
        return own

    def _left(self, ticket: Ticket, future: "asyncio.Future[Replied]") -> None:
        """A connection that is gone leaves its request behind; nobody waits for that reply."""
        if future.cancelled() and self._waiting.pop(ticket, None) is not None:
            self._forget(ForgetTicket(ticket))

    def _forget(self, command: ForgetTicket | ForgetIds) -> None:
        try:
            self._unasked(command)
        except JournalFull:
            return  # Its session will time out instead.
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it.
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a member could not be forgotten", "exception": error}
            )
