"""Who is in a group, as a value: the volatile part of a group, but for its sessions.

It is lost with the process and rebuilt from the generation that was recorded last.
"""

import enum
from collections.abc import Collection, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from semel.errors import FencedInstanceId, IllegalGeneration, UnknownMemberId
from semel.groups.commands import GroupDescription, GroupListing, Ticket
from semel.groups.members import (
    CONSUMER_PROTOCOL_TYPE,
    Awaited,
    Member,
    common_protocols,
    subscribed_topics,
)
from semel.groups.records import GenerationRecorded
from semel.types import GroupId, MemberId


class State(enum.Enum):
    """Named to the client as Kafka names them."""

    EMPTY = "Empty"
    """No members; offsets may remain."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Waiting for every member to send JoinGroup."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """Waiting for the leader's SyncGroup, which carries the assignment."""
    STABLE = "Stable"
    """Every member has, or may ask for, its assignment of this generation."""
    DEAD = "Dead"
    """Forgotten; said of a group that is not there."""


FOLLOWERS: Mapping[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.PREPARING_REBALANCE: frozenset({State.COMPLETING_REBALANCE, State.EMPTY}),
    State.COMPLETING_REBALANCE: frozenset({State.STABLE, State.PREPARING_REBALANCE}),
    State.STABLE: frozenset({State.PREPARING_REBALANCE}),
    State.DEAD: frozenset(),
}


class Membership(msgspec.Struct, frozen=True, gc=False):
    group_id: GroupId
    state: State = State.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: MemberId | None = None
    """Of the current generation; it may have left when the next one is being prepared."""
    members: Mapping[MemberId, Member] = {}
    """In the order in which they joined."""
    instances: Mapping[str, MemberId] = {}
    join_deadline_ms: int | None = None
    """Set while a rebalance is prepared."""
    sync_deadline_ms: int | None = None
    """Set from then on until all have asked for their assignment. Law: never both."""
    is_initial: bool = False
    """The rebalance began in an empty group and waits for more members to arrive."""
    delay_left_ms: int = 0
    newcomer_arrived: bool = False

    @classmethod
    def from_record(cls, recorded: GenerationRecorded) -> "Membership":
        members = [Member.from_record(each, recorded.protocol or "") for each in recorded.members]
        group = cls(
            recorded.group_id,
            State.STABLE if members else State.EMPTY,
            recorded.generation,
            recorded.protocol_type or None,
            recorded.protocol,
            recorded.leader,
        )
        return group.with_members(members) if members else group

    def moved_to(self, state: State) -> "Membership":
        assert state in FOLLOWERS[self.state], f"{self.group_id}: {self.state} -> {state}"
        return replace(self, state=state)

    def with_members(self, members: Iterable[Member]) -> "Membership":
        """These are added, or take the place of what they were before."""
        changed = {member.member_id: member for member in members}
        instances = {
            member.group_instance_id: member_id
            for member_id, member in changed.items()
            if member.group_instance_id is not None
        }
        return replace(
            self,
            members={**self.members, **changed},
            instances={**self.instances, **instances} if instances else self.instances,
        )

    def without(self, member_ids: Collection[MemberId]) -> "Membership":
        if not member_ids:
            return self
        members = {**self.members}
        instances = {**self.instances}
        for member_id in member_ids:
            member = members.pop(member_id)
            if member.group_instance_id is not None:
                del instances[member.group_instance_id]
        return replace(self, members=members, instances=instances)

    def with_renamed(self, member_id: MemberId, new_id: MemberId) -> "Membership":
        """A static member came back: same place in the group, another id."""
        member = replace(self.members[member_id], member_id=new_id)
        renamed = self.without([member_id]).with_members([member])
        return replace(renamed, leader=new_id) if self.leader == member_id else renamed

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
    def all_members_have_joined(self) -> bool:
        return all(member.awaits is Awaited.JOIN for member in self.members.values())

    @property
    def deadline_ms(self) -> int | None:
        """Of what all members do together; each one's session has its own."""
        return self.sync_deadline_ms if self.join_deadline_ms is None else self.join_deadline_ms

    def speaks(self, protocol_type: str, names: frozenset[str]) -> bool:
        if not protocol_type or not names:
            return False
        if not self.members:
            return True
        return protocol_type == self.protocol_type and not names.isdisjoint(
            common_protocols(self.members.values())
        )

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

    def recorded(self, wall_ms: int) -> GenerationRecorded:
        """The record by which this generation lasts."""
        return GenerationRecorded(
            self.group_id,
            self.protocol_type or "",
            self.generation,
            self.protocol,
            self.leader,
            wall_ms,
            tuple(member.recorded(self.protocol) for member in self.members.values()),
        )

    def described(self) -> GroupDescription:
        stable = self.state is State.STABLE
        return GroupDescription(
            self.group_id,
            self.state.value,
            self.protocol_type or "",
            (self.protocol or "") if stable else "",
            tuple(member.described(self.protocol, stable) for member in self.members.values()),
        )

    def listed(self) -> GroupListing:
        return GroupListing(self.group_id, self.protocol_type or "", self.state.value)
