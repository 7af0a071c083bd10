"""Consumer groups as a lane would run them: records applied through their bytes, time by hand."""

import random
from typing import Any, TypeVar

import msgspec

from semel.errors import NONE
from semel.groups.commands import (
    TOKEN_SIZE,
    UNASKED,
    Command,
    CommitOffsets,
    CommitReply,
    DeleteGroups,
    DeleteGroupsReply,
    DeleteOffsets,
    DeleteOffsetsReply,
    Expire,
    FetchOffsets,
    ForgetIds,
    ForgetTicket,
    Heartbeat,
    HeartbeatReply,
    Join,
    JoinReply,
    Leave,
    LeaveReply,
    MemberIdentity,
    OffsetToCommit,
    Protocol,
    Reply,
    Sync,
    SyncReply,
    Ticket,
)
from semel.groups.coordinator import Groups
from semel.groups.deciding import GroupDecision
from semel.groups.lasting import GroupsSnapshot
from semel.groups.records import GroupRecord, decode, encode
from semel.groups.settings import GroupSettings
from semel.types import NO_PRODUCER_ID, GroupId, MemberId, ProducerId, TopicPartition
from semel.world import Moment

START_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
GROUP = GroupId("g")
NOBODY = MemberId("")
EXPIRED_SIZE_MAX = 70_000

Expected = TypeVar("Expected", bound=Reply)
Entry = tuple[bytes, bytes | None, ProducerId, int]
Marker = tuple[ProducerId, bool]


def subscription(*topics: str, owned: bytes = b"") -> bytes:
    """A consumer's subscription, version 1, as Java writes it."""
    body = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\x00\x01" + len(topics).to_bytes(4, "big") + body + b"\xff\xff\xff\xff" + owned


class GroupWorld:
    """Checks on every step what must hold of any: one reply per ticket, records that are read as
    they were written."""

    def __init__(self, settings: GroupSettings | None = None, seed: int = 0) -> None:
        self.settings = settings or GroupSettings()
        self._random = random.Random(seed)
        self.now_ms = START_MS
        self.groups = Groups(self.settings)
        self.groups.start_sessions(self.at)
        self.log: list[Entry | Marker] = []
        self.replies: dict[Ticket, Reply] = {}
        self.records: list[GroupRecord] = []
        self._tickets = 0

    @property
    def wall_ms(self) -> int:
        """Of a clock that goes back all the time, as nothing may be judged by it."""
        return 2 * START_MS - self.now_ms

    @property
    def at(self) -> Moment:
        return Moment(self.now_ms, self.wall_ms)

    def ticket(self) -> Ticket:
        self._tickets += 1
        return Ticket(self._tickets)

    def take(
        self,
        command: Command,
        ticket: Ticket = UNASKED,
        producer_id: ProducerId = NO_PRODUCER_ID,
    ) -> GroupDecision:
        decided = self.groups.decide(command, ticket, self.at)
        for record in decided.records:
            key, value = encode(record)
            stored = decode(key, value)
            assert stored == record
            assert stored is not None
            self.log.append((key, value, producer_id, self.now_ms))
            self.groups.apply(stored, self.now_ms, producer_id)
            self.records.append(record)
        self.groups.adopt(decided)
        for answered, reply in decided.replies:
            assert answered not in self.replies, f"ticket {answered} answered twice"
            self.replies[answered] = reply
        return decided

    def ask(self, command: Command, producer_id: ProducerId = NO_PRODUCER_ID) -> Ticket:
        ticket = self.ticket()
        self.take(command, ticket, producer_id)
        return ticket

    def reply(self, ticket: Ticket, kind: type[Expected]) -> Expected:
        reply = self.replies[ticket]
        assert isinstance(reply, kind)
        return reply

    # Commands, with what most tests do not care about filled in

    def join(
        self, member_id: MemberId = NOBODY, group_id: GroupId = GROUP, **changes: Any
    ) -> Ticket:
        command = Join(
            group_id,
            member_id,
            None,
            "client",
            "/127.0.0.1",
            SESSION_MS,
            REBALANCE_MS,
            "consumer",
            (Protocol("range", subscription("t")),),
            self._random.randbytes(TOKEN_SIZE),
        )._replace(**changes)
        return self.ask(command)

    def joined(self, ticket: Ticket) -> JoinReply:
        return self.reply(ticket, JoinReply)

    def enter(self, **changes: Any) -> tuple[MemberId, Ticket]:
        """Both steps of a new dynamic member; it then waits for the rebalance."""
        member_id = self.joined(self.join(**changes)).member_id
        return member_id, self.join(member_id, **changes)

    def sync(
        self,
        member_id: MemberId,
        generation: int,
        assignments: dict[MemberId, bytes] | None = None,
        **changes: Any,
    ) -> Ticket:
        command = Sync(
            GROUP, generation, member_id, None, None, None, tuple((assignments or {}).items())
        )._replace(**changes)
        return self.ask(command)

    def synced(self, ticket: Ticket) -> SyncReply:
        return self.reply(ticket, SyncReply)

    def heartbeat(self, member_id: MemberId, generation: int, instance: str | None = None) -> int:
        ticket = self.ask(Heartbeat(GROUP, generation, member_id, instance))
        return self.reply(ticket, HeartbeatReply).error_code

    def leave(self, *members: tuple[str, str | None], group_id: GroupId = GROUP) -> LeaveReply:
        command = Leave(group_id, tuple(MemberIdentity(MemberId(m), i) for m, i in members))
        ticket = self.ask(command)
        return self.reply(ticket, LeaveReply)

    def commit(
        self,
        offset: int,
        member_id: MemberId = NOBODY,
        generation: int = -1,
        topic: str = "t",
        producer_id: ProducerId = NO_PRODUCER_ID,
        **changes: Any,
    ) -> int:
        asked = OffsetToCommit(topic, 0, offset, 0)
        command = CommitOffsets(GROUP, generation, member_id, None, (asked,))._replace(**changes)
        command = command._replace(in_transaction=producer_id != NO_PRODUCER_ID)
        ticket = self.ask(command, producer_id)
        return self.reply(ticket, CommitReply).partitions[0].error_code

    def end_transaction(self, producer_id: ProducerId, committed: bool) -> None:
        self.log.append((producer_id, committed))
        self.groups.apply_marker(producer_id, committed)

    def fetch(self, topic: str = "t", require_stable: bool = False) -> tuple[int, int]:
        """The offset and the error code."""
        command = FetchOffsets(GROUP, (TopicPartition(topic, 0),), require_stable)
        (fetched,) = self.groups.fetch_offsets(command)
        return fetched.offset, fetched.error_code

    def delete(self, *group_ids: GroupId) -> list[int]:
        command = DeleteGroups(group_ids)
        ticket = self.ask(command)
        return [group.error_code for group in self.reply(ticket, DeleteGroupsReply).groups]

    def delete_offsets(self, *topics: str) -> DeleteOffsetsReply:
        command = DeleteOffsets(GROUP, tuple(TopicPartition(topic, 0) for topic in topics))
        ticket = self.ask(command)
        return self.reply(ticket, DeleteOffsetsReply)

    def forget_ids(self, *member_ids: MemberId) -> None:
        self.take(ForgetIds(GROUP, member_ids))

    def forget(self, ticket: Ticket) -> None:
        self.take(ForgetTicket(ticket))

    # Time and death

    def pass_time(self, duration_ms: int) -> None:
        """As a lane does: sleep until the next deadline, expire, again."""
        end_ms = self.now_ms + duration_ms
        while (deadline_ms := self.groups.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.expire()
        self.now_ms = end_ms

    def expire(self, records_size_max: int = EXPIRED_SIZE_MAX) -> GroupDecision:
        return self.take(Expire(self.now_ms, records_size_max))

    def replayed(self) -> Groups:
        groups = Groups(self.settings)
        for entry in self.log:
            if len(entry) == 2:
                groups.apply_marker(*entry)
            else:
                key, value, producer_id, now_ms = entry
                record = decode(key, value)
                assert record is not None
                groups.apply(record, now_ms, producer_id)
        return groups

    def restart(self) -> None:
        self.groups = self.replayed()
        self.groups.start_sessions(self.at)

    def restart_from_snapshot(self) -> None:
        snapshot = msgspec.msgpack.decode(
            msgspec.msgpack.encode(self.groups.snapshot()), type=GroupsSnapshot
        )
        self.groups = Groups(self.settings)
        self.groups.restore(snapshot)
        self.groups.start_sessions(self.at)

    # Longer ways

    def stable(self, count: int = 1, **changes: Any) -> tuple[list[MemberId], int]:
        """A stable group of so many members, the leader first, and its generation."""
        entered = [self.enter(**changes) for _ in range(count)]
        while entered[0][1] not in self.replies:
            self.pass_time(100)
        reply = self.joined(entered[0][1])
        members = sorted((m for m, _ in entered), key=lambda m: m != reply.leader)
        self.assign(members, reply.generation)
        return members, reply.generation

    def assign(self, members: list[MemberId], generation: int) -> None:
        """Followers first, then the leader, who stands first, with `for <member>` for each."""
        assignments = {member: f"for {member}".encode() for member in members}
        tickets = [self.sync(member, generation) for member in members[1:]]
        tickets.append(self.sync(members[0], generation, assignments))
        assert [self.synced(ticket).error_code for ticket in tickets] == [NONE] * len(members)

    def state(self, group_id: GroupId = GROUP) -> str:
        description = self.groups.describe(group_id)
        return "Dead" if description is None else description.state


def everything(groups: Groups) -> str:
    """All state, lasting and volatile, as text that is equal only if nothing changed."""
    lasting, volatile = groups._lasting, groups._volatile
    deadlines = [volatile._deadlines]
    deadlines += [group.sessions._deadlines for group in volatile.by_id.values()]  # type: ignore[misc]
    lines = [repr(lasting.snapshot()), repr(lasting._pending_in), repr(volatile)]
    lines += [repr(each._heap) for each in deadlines]
    lines += [
        f"{group.group_id} {group.recorded} {group.recorded_ms} {vars(group.offsets)}"
        for group in lasting.by_id.values()
    ]
    return "\n".join(lines)
