"""What a member of a group has to do next, as its core says it. Pure."""

import enum
from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from semel.types import TopicPartition

_Listener = TypeVar("_Listener")


class Change(enum.Enum):
    ASSIGNED = "assigned"
    REVOKED = "revoked"
    """Still this member's while the application is told: it may commit what it has done."""
    LOST = "lost"
    """Perhaps another's already."""


class Tell(NamedTuple):
    """The application is to be told, when it asks for records."""

    change: Change
    partitions: frozenset[TopicPartition]
    generation_id: int


class Join(NamedTuple):
    member_id: str
    protocols: tuple[tuple[str, bytes], ...]
    """The name of each assignor and the subscription for it, the preferred one first."""


class Learn(NamedTuple):
    """The leader needs to know how many partitions these topics have."""

    topics: frozenset[str]


class Sync(NamedTuple):
    generation_id: int
    member_id: str
    protocol_name: str | None
    assignments: Mapping[str, bytes]
    """By member id; only the leader has any."""


class Leave(NamedTuple):
    member_id: str


Action = Tell | Join | Learn | Sync | Leave


class MemberIdentity(NamedTuple):
    """As whom a member speaks to its coordinator."""

    generation_id: int
    member_id: str


NOBODY = MemberIdentity(-1, "")


class Callbacks(Generic[_Listener]):
    """Whom a consumer tells that partitions come and go."""

    def __init__(
        self,
        on_assigned: _Listener | None = None,
        on_revoked: _Listener | None = None,
        on_lost: _Listener | None = None,
    ) -> None:
        self._by_change = {
            Change.ASSIGNED: on_assigned,
            Change.REVOKED: on_revoked,
            # Whoever does not care why they went is told that they did.
            Change.LOST: on_revoked if on_lost is None else on_lost,
        }

    def of(self, tell: Tell) -> _Listener | None:
        return self._by_change[tell.change]
