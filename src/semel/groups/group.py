"""One consumer group: what lasts, what is volatile, and what may be read from both.

Law: `recorded`, `recorded_ms` and `offsets` change only when a record is applied. All else is
lost with the process and rebuilt from `recorded`.
"""

from semel.deadlines import Deadlines
from semel.errors import FencedInstanceId, IllegalGeneration, UnknownMemberId
from semel.groups.commands import DescribedMember, GroupDescription, GroupListing, Ticket
from semel.groups.members import Awaited, Member, common_protocols
from semel.groups.offsets import Offsets
from semel.groups.records import NO_TIMESTAMP, GenerationRecorded
from semel.groups.states import FOLLOWERS, State
from semel.groups.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from semel.types import GroupId, MemberId


class Group:
    __slots__ = (
        "delay_left_ms",
        "generation",
        "group_id",
        "instances",
        "is_initial",
        "join_deadline_ms",
        "leader",
        "members",
        "newcomer_arrived",
        "offsets",
        "pending_deadlines",
        "pending_members",
        "protocol",
        "protocol_type",
        "recorded",
        "recorded_ms",
        "state",
        "sync_deadline_ms",
        "unsynced",
    )

    def __init__(self, group_id: GroupId) -> None:
        self.group_id = group_id
        self.recorded: GenerationRecorded | None = None
        self.recorded_ms = NO_TIMESTAMP
        """When that was, by the time in which retention is counted."""
        self.offsets = Offsets()
        self.clear()

    def clear(self) -> None:
        """Back to the volatile state of a group that no one has joined."""
        self.state = State.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: MemberId | None = None
        """Of the current generation; it may have left when the next one is being prepared."""
        self.members: dict[MemberId, Member] = {}
        self.instances: dict[str, MemberId] = {}
        self.pending_members: set[MemberId] = set()
        """Ids given out with MEMBER_ID_REQUIRED, whose return is awaited."""
        self.pending_deadlines = Deadlines[MemberId]()
        self.unsynced: set[MemberId] = set()
        """Members that have not asked for their assignment of this generation yet."""
        self.join_deadline_ms: int | None = None
        self.sync_deadline_ms: int | None = None
        self.is_initial = False
        """The rebalance began in an empty group and waits for more members to arrive."""
        self.delay_left_ms = 0
        self.newcomer_arrived = False

    def recover(self, now_ms: int) -> None:
        """Rebuild the volatile state; every session gets a full timeout."""
        self.clear()
        if self.recorded is None:
            return
        self.generation = self.recorded.generation
        self.protocol_type = self.recorded.protocol_type or None
        self.protocol = self.recorded.protocol
        self.leader = self.recorded.leader
        for stored in self.recorded.members:
            self.add(Member.recovered(stored, self.recorded.protocol or "", now_ms))
        if self.members:
            self.state = State.STABLE

    def move_to(self, state: State) -> None:
        assert state in FOLLOWERS[self.state], f"{self.group_id}: {self.state} -> {state}"
        self.state = state

    def add(self, member: Member) -> None:
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.instances[member.group_instance_id] = member.member_id

    def discard(self, member: Member) -> None:
        del self.members[member.member_id]
        self.unsynced.discard(member.member_id)
        if member.group_instance_id is not None:
            del self.instances[member.group_instance_id]

    def rename(self, member: Member, member_id: MemberId) -> None:
        """A static member came back: same place in the group, another id."""
        if self.leader == member.member_id:
            self.leader = member_id
        was_unsynced = member.member_id in self.unsynced
        self.discard(member)
        member.member_id = member_id
        self.add(member)
        if was_unsynced:
            self.unsynced.add(member_id)

    def expect(self, member_id: MemberId, deadline_ms: int) -> None:
        """An id is given out, to be joined under before the deadline."""
        self.pending_members.add(member_id)
        self.pending_deadlines.schedule(member_id, deadline_ms)

    def expects_no_more(self, member_id: MemberId) -> bool:
        """Whether its return was awaited until now."""
        if member_id not in self.pending_members:
            return False
        self.pending_members.remove(member_id)
        self.pending_deadlines.take(member_id)
        return True

    def member(self, member_id: MemberId, group_instance_id: str | None) -> Member:
        """The member that a request speaks for, or a refusal."""
        if group_instance_id is not None:
            owner = self.instances.get(group_instance_id)
            if owner is None:
                raise UnknownMemberId(f"{self.group_id} has no instance {group_instance_id}")
            if owner != member_id:
                raise FencedInstanceId(f"{group_instance_id} of {self.group_id} is now {owner}")
        found = self.members.get(member_id)
        if found is None:
            raise UnknownMemberId(f"{self.group_id} has no member {member_id!r}")
        return found

    def check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise IllegalGeneration(f"{self.group_id}: {generation} is not {self.generation}")

    def waiting_with(self, ticket: Ticket) -> Member | None:
        return next((member for member in self.members.values() if member.ticket == ticket), None)

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_have_joined(self) -> bool:
        return not self.pending_members and all(
            member.awaits is Awaited.JOIN for member in self.members.values()
        )

    @property
    def is_vacant(self) -> bool:
        """Nothing lasting, no one here and no one expected."""
        # A generation above 0 with nothing recorded is about to be: its record is in the Step.
        return not (
            self.recorded or self.offsets or self.members or self.pending_members or self.generation
        )

    def speaks(self, protocol_type: str, names: frozenset[str]) -> bool:
        if not protocol_type or not names:
            return False
        if not self.members:
            return True
        return protocol_type == self.protocol_type and not names.isdisjoint(
            common_protocols(self.members.values())
        )

    def next_deadline_ms(self) -> int | None:
        pending_ms = self.pending_deadlines.next_ms() if self.pending_members else None
        deadlines = [self.join_deadline_ms, self.sync_deadline_ms, pending_ms]
        deadlines += [member.expires_at_ms for member in self.members.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def subscribed_topics(self) -> frozenset[str] | None:
        """None if it cannot be known: no consumers, or metadata that is not theirs."""
        if self.members and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            for protocol in member.protocols:
                subscribed = subscribed_topics(protocol.metadata)
                if subscribed is None:
                    return None
                topics |= subscribed
        return frozenset(topics)

    def record(self, wall_ms: int) -> GenerationRecorded:
        return GenerationRecorded(
            self.group_id,
            self.protocol_type or "",
            self.generation,
            self.protocol,
            self.leader,
            wall_ms,
            tuple(member.recorded(self.protocol) for member in self.members.values()),
        )

    def describe(self) -> GroupDescription:
        stable = self.state is State.STABLE
        members: tuple[DescribedMember, ...] = tuple(
            member.described(self.protocol, stable) for member in self.members.values()
        )
        return GroupDescription(
            self.group_id,
            self.state.value,
            self.protocol_type or "",
            (self.protocol or "") if stable else "",
            members,
        )

    def listing(self) -> GroupListing:
        return GroupListing(self.group_id, self.protocol_type or "", self.state.value)
