"""A member of a group as a value, its subscription, and the protocol that all members speak."""

import enum
from collections import Counter
from collections.abc import Collection, Iterable

import msgspec
from msgspec.structs import replace

from semel.errors import ProtocolError
from semel.groups.commands import DescribedMember, Join, JoinedMember, Protocol, Ticket
from semel.groups.records import RecordedMember
from semel.groups.settings import CLIENT_ID_IN_MEMBER_ID_MAX
from semel.records.fields import FieldReader
from semel.types import Buffer, MemberId

CONSUMER_PROTOCOL_TYPE = "consumer"


class Awaited(enum.Enum):
    """The reply that a member's open request waits for."""

    NOTHING = enum.auto()
    JOIN = enum.auto()
    SYNC = enum.auto()


class Member(msgspec.Struct, frozen=True, gc=False):
    """Volatile but for what `recorded` shows. Until when its session lasts is kept apart."""

    member_id: MemberId
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    awaits: Awaited = Awaited.NOTHING
    ticket: Ticket | None = None
    """None also while a reply is awaited whose connection is gone."""
    is_new: bool = False
    """Has not been through a completed rebalance yet."""
    has_synced: bool = True
    """Has asked for its assignment of this generation, if one is to be had."""

    @classmethod
    def joining(cls, command: Join, member_id: MemberId) -> "Member":
        return cls(
            member_id,
            command.group_instance_id,
            command.client_id,
            command.client_host,
            command.session_timeout_ms,
            command.rebalance_timeout_ms,
            command.protocols,
            is_new=True,
        )

    @classmethod
    def from_record(cls, stored: RecordedMember, protocol: str) -> "Member":
        return cls(
            stored.member_id,
            stored.group_instance_id,
            stored.client_id,
            stored.client_host,
            stored.session_timeout_ms,
            stored.rebalance_timeout_ms,
            (Protocol(protocol, stored.subscription),),
            stored.assignment,
        )

    def rejoining(self, command: Join) -> "Member":
        """As it describes itself when it joins again."""
        return replace(
            self,
            client_id=command.client_id,
            client_host=command.client_host,
            session_timeout_ms=command.session_timeout_ms,
            rebalance_timeout_ms=command.rebalance_timeout_ms,
            protocols=command.protocols,
        )

    def waiting(self, awaited: Awaited, ticket: Ticket | None) -> "Member":
        return replace(self, awaits=awaited, ticket=ticket)

    def answered(self) -> "Member":
        """It waits for nothing any more."""
        if self.awaits is Awaited.NOTHING:
            return self
        return replace(self, awaits=Awaited.NOTHING, ticket=None)

    @property
    def can_expire(self) -> bool:
        """Not while it waits for us: an open request is a sign of life.

        Not so a first JoinGroup, whose client cannot send heartbeats yet and may be gone.
        """
        return self.awaits is Awaited.NOTHING or self.is_new

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


def new_member_id(client_id: str, group_instance_id: str | None, token: bytes) -> MemberId:
    assert token, "an id that anybody could guess, and another could have"
    # A client id may fill a string of the wire by itself, and the member id must fit one too.
    prefix = (client_id if group_instance_id is None else group_instance_id)[
        :CLIENT_ID_IN_MEMBER_ID_MAX
    ]
    return MemberId(f"{prefix}-{token.hex()}")


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


def subscribed_topics(metadata: Buffer) -> frozenset[str] | None:
    """The topics of a consumer: all that the broker reads of its metadata.

    None if this is not a subscription of Kafka's consumer protocol.
    """
    reader = FieldReader(metadata, "subscription", ProtocolError)
    try:
        if reader.int16() < 0:
            return None
        return frozenset(reader.string() for _ in range(reader.count()))
    except ProtocolError:
        return None
