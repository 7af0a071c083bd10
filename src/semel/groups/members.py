"""A member of a group, and the election of the protocol that all members speak."""

import enum
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from semel.groups.commands import DescribedMember, Join, JoinedMember, Protocol, Ticket
from semel.groups.records import RecordedMember
from semel.groups.settings import CLIENT_ID_IN_MEMBER_ID_MAX
from semel.types import MemberId
from semel.world import Randomness


class Awaited(enum.Enum):
    """The reply that a member's open request waits for."""

    NOTHING = enum.auto()
    JOIN = enum.auto()
    SYNC = enum.auto()


@dataclass(slots=True, eq=False)
class Member:
    """Volatile but for what `recorded` shows."""

    member_id: MemberId
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    deadline_ms: int
    """Without a sign of life until then it is removed."""
    assignment: bytes = b""
    awaits: Awaited = Awaited.NOTHING
    ticket: Ticket | None = None
    """None also while a reply is awaited whose connection is gone."""
    is_new: bool = False
    """Has not been through a completed rebalance yet."""

    @classmethod
    def joining(cls, command: Join, member_id: MemberId, deadline_ms: int) -> "Member":
        member = cls(
            member_id,
            command.group_instance_id,
            command.client_id,
            command.client_host,
            command.session_timeout_ms,
            command.rebalance_timeout_ms,
            command.protocols,
            deadline_ms,
        )
        member.is_new = True
        return member

    @classmethod
    def recovered(cls, stored: RecordedMember, protocol: str, now_ms: int) -> "Member":
        member = cls(
            stored.member_id,
            stored.group_instance_id,
            stored.client_id,
            stored.client_host,
            stored.session_timeout_ms,
            stored.rebalance_timeout_ms,
            (Protocol(protocol, stored.subscription),),
            now_ms + stored.session_timeout_ms,
        )
        member.assignment = stored.assignment
        return member

    def adopt(self, command: Join) -> None:
        self.client_id = command.client_id
        self.client_host = command.client_host
        self.session_timeout_ms = command.session_timeout_ms
        self.rebalance_timeout_ms = command.rebalance_timeout_ms
        self.protocols = command.protocols

    def renew(self, now_ms: int) -> None:
        self.deadline_ms = now_ms + self.session_timeout_ms

    @property
    def expires_at_ms(self) -> int | None:
        """None while it waits for us: an open request is a sign of life.

        Not so of a first JoinGroup, whose client cannot send heartbeats yet and may be gone.
        """
        if self.awaits is not Awaited.NOTHING and not self.is_new:
            return None
        return self.deadline_ms

    def metadata_for(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def joined(self, protocol: str | None) -> JoinedMember:
        return JoinedMember(self.member_id, self.group_instance_id, self.metadata_for(protocol))

    def recorded(self, protocol: str | None) -> RecordedMember:
        return RecordedMember(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata_for(protocol),
            self.assignment,
        )

    def described(self, protocol: str | None, stable: bool) -> DescribedMember:
        return DescribedMember(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.metadata_for(protocol) if stable else b"",
            self.assignment if stable else b"",
        )


def common_protocols(members: Iterable[Member]) -> frozenset[str]:
    """The names that every member speaks."""
    spoken = [frozenset(protocol.name for protocol in member.protocols) for member in members]
    return frozenset.intersection(*spoken) if spoken else frozenset()


def elected_protocol(members: Collection[Member]) -> str:
    """Each member votes for its first choice among those that all speak.

    A tie goes to the choice met first in the order of joining, so that a replay agrees.
    """
    candidates = common_protocols(members)
    votes: Counter[str] = Counter()
    for member in members:
        votes[next(name for name, _ in member.protocols if name in candidates)] += 1
    return votes.most_common(1)[0][0]


def new_member_id(client_id: str, group_instance_id: str | None, dice: Randomness) -> MemberId:
    # A client id may fill a string of the wire by itself, and the member id must fit one too.
    prefix = (client_id if group_instance_id is None else group_instance_id)[
        :CLIENT_ID_IN_MEMBER_ID_MAX
    ]
    return MemberId(f"{prefix}-{dice.token_bytes(16).hex()}")
