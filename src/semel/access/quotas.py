"""Quotas: how much clients may ask of a broker, and which of those that are set counts for whom.

A state machine of its own, which lives in lane 0. Each broker holds its clients to the quotas by
what they ask of it, as Kafka's brokers do.

Law: it changes only when a fact is applied; what stands in it is replaced, never changed.
"""

import enum
import ipaddress
import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol
from urllib.parse import quote

from semel.errors import InvalidRequest

NAME_SIZE_MAX: Final = 1_024
EVERY_OTHER: Final = ""
"""Stands for whoever has no quota of the own name: Kafka's default entity."""
NO_VALUES: Final[Mapping[str, float]] = MappingProxyType({})


class Kind(enum.Enum):
    """What is counted, by Kafka's name of the quota."""

    PRODUCED = "producer_byte_rate"
    """Bytes of Produce requests, each second."""
    CONSUMED = "consumer_byte_rate"
    """Bytes of records in the answers to Fetch, each second."""
    REQUESTS = "request_percentage"
    """The share of the broker's loop that requests take; 100 is all of it."""
    CONNECTIONS = "connection_creation_rate"
    """New connections each second."""


OF_CLIENTS: Final = frozenset({Kind.PRODUCED.value, Kind.CONSUMED.value, Kind.REQUESTS.value})
OF_ADDRESSES: Final = frozenset({Kind.CONNECTIONS.value})
FRACTIONAL: Final = frozenset({Kind.REQUESTS.value})
_WHOLE_WITHIN: Final = 1e-6
"""As Kafka rounds."""


class Entity(NamedTuple):
    """Whom a quota is for. A part that is None is not said; `EVERY_OTHER` is Kafka's default."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def __str__(self) -> str:
        """As Kafka writes it, and as a name that no other entity has."""
        return "/".join(
            f"{kind}/{'<default>' if name == EVERY_OTHER else quote(name, safe='')}"
            for kind, name in (("users", self.user), ("clients", self.client_id), ("ips", self.ip))
            if name is not None
        )

    def check(self) -> None:
        """Raises InvalidRequest if quotas cannot be for this."""
        if self == Entity():
            raise InvalidRequest("a quota is for a user, a client id, both, or an address")
        if self.ip is not None:
            if self.user is not None or self.client_id is not None:
                raise InvalidRequest("a quota of an address is for no user and no client id")
            _check_address(self.ip)
        for name in self:
            if name is not None and len(name.encode()) > NAME_SIZE_MAX:
                raise InvalidRequest(f"a name in a quota has {NAME_SIZE_MAX} bytes at most")

    def check_value(self, name: str, value: float) -> None:
        """Raises InvalidRequest if there is no such quota for this, or not of this size."""
        known = OF_CLIENTS if self.ip is None else OF_ADDRESSES
        if name not in known:
            there = f"{'are' if len(known) > 1 else 'is'} {_listed(known)}"
            raise InvalidRequest(f"{name!r} is no quota of {self}: there {there}")
        if not 0 < value < math.inf:
            raise InvalidRequest(f"{name}={value:g}: a quota is greater than 0")
        if name not in FRACTIONAL and abs(round(value) - value) > _WHOLE_WITHIN:
            raise InvalidRequest(f"{name}={value:g}: must be a whole number")


def _check_address(text: str) -> None:
    if text != EVERY_OTHER:
        try:
            ipaddress.ip_address(text)
        except ValueError:
            raise InvalidRequest(f"{text!r} is no IP address") from None


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))


class Share(NamedTuple):
    """Who is counted together: an empty part is not looked at."""

    user: str = ""
    client_id: str = ""


class Limit(NamedTuple):
    """The quota that counts for a client."""

    share: Share
    bound: float


class QuotasView(Protocol):
    """What may be read of it."""

    @property
    def change_count(self) -> int: ...

    def __iter__(self) -> Iterator[Entity]: ...

    def __len__(self) -> int: ...

    def of(self, entity: Entity) -> Mapping[str, float]:
        """The values that are set for exactly this, by the names of their kinds."""

    def limit(self, kind: Kind, user: str, client_id: str) -> Limit | None:
        """The one that counts for a client; None if there is none."""

    def connection_rate(self, ip: str) -> tuple[float | None, bool]:
        """The one that counts for an address, if any, and whether it is for that one alone."""


class Quotas:
    def __init__(self) -> None:
        self.by_entity: dict[Entity, Mapping[str, float]] = {}
        self.change_count = 0

    def __iter__(self) -> Iterator[Entity]:
        return iter(self.by_entity)

    def __len__(self) -> int:
        return len(self.by_entity)

    def of(self, entity: Entity) -> Mapping[str, float]:
        return self.by_entity.get(entity, NO_VALUES)

    def tell(self, entity: Entity, values: Mapping[str, float]) -> None:
        """These are all that are set for it."""
        self.change_count += 1
        if values:
            self.by_entity[entity] = MappingProxyType(dict(values))
        else:
            self.by_entity.pop(entity, None)

    def limit(self, kind: Kind, user: str, client_id: str) -> Limit | None:
        """The most special one that is set, in Kafka's order: what is said of the user comes before
        what is said of the client id, and a name before the default."""
        for entity, share in _in_turn(user, client_id):
            bound = self.of(entity).get(kind.value)
            if bound is not None:
                return Limit(share, bound)
        return None

    def connection_rate(self, ip: str) -> tuple[float | None, bool]:
        for name in (ip, EVERY_OTHER):
            bound = self.of(Entity(ip=name)).get(Kind.CONNECTIONS.value)
            if bound is not None:
                return bound, name == ip
        return None, False


def _in_turn(user: str, client_id: str) -> Iterator[tuple[Entity, Share]]:
    for name in (user, EVERY_OTHER) if user else (EVERY_OTHER,):
        if client_id:
            yield Entity(name, client_id), Share(user, client_id)
        yield Entity(name, EVERY_OTHER), Share(user, client_id)
        yield Entity(name), Share(user)
    if client_id:
        yield Entity(client_id=client_id), Share("", client_id)
    yield Entity(client_id=EVERY_OTHER), Share("", client_id)
