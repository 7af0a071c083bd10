"""Where members of groups wait for each other: a ticket for each request, a reply for each."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from semel.errors import (
    CoordinatorNotAvailable,
    FrameTooLarge,
    InvalidCommitOffsetSize,
    JournalFull,
    MemberIdRequired,
)
from semel.groups import room
from semel.groups.commands import (
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    Heartbeat,
    Join,
    Leave,
    Reply,
    Step,
    Sync,
    Ticket,
)
from semel.lane.claims import Claim
from semel.lane.group_commands import records_room, take_group_step
from semel.types import GroupId, MemberId
from semel.world import Moment

if TYPE_CHECKING:
    from semel.lane.lane import Lane, Mark

Kind = TypeVar("Kind", bound=Reply)

ENDING = (Leave, DeleteGroups, DeleteOffsets)
"""Commands that leave less behind than there was."""


class Replied(NamedTuple):
    reply: Any
    mark: "Mark"
    """The reply may leave when the journal is durable up to here."""


class WaitingRoom:
    def __init__(self, lane: "Lane", changed: asyncio.Event) -> None:
        self._lane = lane
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
        groups = lane.state.groups
        self._decide: dict[type, Callable[[Any, Ticket, Moment], Step]] = {
            Join: groups.join,
            Sync: groups.sync,
            Heartbeat: groups.heartbeat,
            Leave: groups.leave,
            CommitOffsets: groups.commit_offsets,
            DeleteGroups: groups.delete_groups,
            DeleteOffsets: groups.delete_offsets,
        }

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def ask(self, command: room.Command) -> "Replied | asyncio.Future[Replied]":
        """Decide now. Gives the reply if there is one already, else the future of it.

        Raises CoordinatorNotAvailable, with nothing changed, if the disk has no room, and
        InvalidCommitOffsetSize for offsets that no frame could hold.
        """
        decide = self._decide[type(command)]
        size_max = self._lane.state.groups.bytes_max(command)
        self._last_ticket += 1
        ticket = Ticket(self._last_ticket)
        try:
            step = take_group_step(
                self._lane,
                lambda at: decide(command, ticket, at),
                size_max,
                Claim.ENDING if isinstance(command, ENDING) else Claim.ORDINARY,
            )
        except JournalFull as error:
            if isinstance(error, FrameTooLarge) and isinstance(command, CommitOffsets):
                raise InvalidCommitOffsetSize(str(error)) from error
            raise CoordinatorNotAvailable(str(error)) from error
        own = self._hand_out(step, ticket)
        if own is not None:
            return own
        future: asyncio.Future[Replied] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = future
        future.add_done_callback(lambda done: self._left(ticket, done))
        return future

    def join(self, command: Join, connection_number: int) -> "Replied | asyncio.Future[Replied]":
        """As `ask`. A new id is good for as long as the connection that asked for it."""
        named = self._named[connection_number][command.group_id]
        named.discard(command.member_id)
        replied = self.ask(command)
        if isinstance(replied, Replied) and replied.reply.error_code == MemberIdRequired.code:
            named.add(replied.reply.member_id)
        return replied

    def disconnected(self, connection_number: int) -> None:
        """Who was only given an id does not come back for it: let the others not wait."""
        for group_id, member_ids in self._named.pop(connection_number, {}).items():
            if member_ids:
                self._forget(partial(self._lane.state.groups.forget_ids, group_id, member_ids))

    def ask_for(self, command: room.Command, kind: type[Kind]) -> Kind:
        """As `ask`, of a command that never has to wait."""
        replied = self.ask(command)
        assert isinstance(replied, Replied), f"{type(command).__name__} was left waiting"
        return cast(Kind, replied.reply)

    def expire(self, due_ms: int) -> None:
        """Do what was due then: sessions, rebalances, offsets; on a full disk, what fits."""
        groups = self._lane.state.groups
        needed = groups.expire_bytes_min(due_ms)
        bytes_max = min(max(needed, records_room(self._lane, Claim.ENDING)), room.STEP_BYTES_MAX)
        self._unasked(lambda at: groups.expire(Moment(due_ms, at.wall_ms), bytes_max), bytes_max)

    def _unasked(
        self, decide: Callable[[Moment], Step], bytes_max: int = room.STEP_BYTES_MAX
    ) -> None:
        step = take_group_step(self._lane, decide, bytes_max, Claim.ENDING)
        self._hand_out(step, None)

    def _hand_out(self, step: Step, own_ticket: Ticket | None) -> Replied | None:
        """Give each waiting request its reply; the one just asked gets its own returned."""
        mark = self._lane.mark()
        deadline_ms = self._lane.state.groups.next_deadline_ms()
        if deadline_ms is not None and deadline_ms < self.next_look_ms:
            self._changed.set()
        own = None
        for ticket, reply in step.replies:
            if ticket == own_ticket:
                own = Replied(reply, mark)
                continue
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                future.set_result(Replied(reply, mark))
        return own

    def _left(self, ticket: Ticket, future: "asyncio.Future[Replied]") -> None:
        """A connection that is gone leaves its request behind; nobody waits for that reply."""
        if future.cancelled():
            self._waiting.pop(ticket, None)
            self._forget(partial(self._lane.state.groups.forget_ticket, ticket))

    def _forget(self, decide: Callable[[Moment], Step]) -> None:
        try:
            self._unasked(decide)
        except JournalFull:
            return  # Its session will time out instead.
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it.
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a member could not be forgotten", "exception": error}
            )
