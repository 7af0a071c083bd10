"""What one caller may do, as the access list says now; decisions are remembered until it changes.

Law: nothing is decided by rules that have been replaced, whoever remembers what.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from semel.access.access_list import AccessListView
from semel.access.principal import Caller, Principal
from semel.errors import AccessUnknown
from semel.wire.rights import CLUSTER_NAME, OPERATIONS_ON, ResourceType, Right

REMEMBERED_MAX: Final = 4_096
"""Decisions of one connection. With more it begins anew, so that names that are made up cost no
memory."""


def super_users(text: str) -> frozenset[Principal]:
    """As Kafka has them in a setting: `User:ann;User:CN=bob,OU=ops`. Raises ValueError."""
    parts = (part.strip() for part in text.split(";"))
    return frozenset(Principal.parse(part) for part in parts if part)


class AccessSettings(NamedTuple):
    super_users: frozenset[Principal] = frozenset()
    allows_if_no_rule: bool = False
    """What no rule names may be done by everybody."""


class Rights(Protocol):
    @property
    def is_known(self) -> bool:
        """False where nobody can tell at present; the other questions then raise AccessUnknown."""

    def may(self, right: Right, name: str = CLUSTER_NAME) -> bool: ...

    def may_see(self, right: Right, name: str = CLUSTER_NAME) -> bool:
        """As `may`, of what nobody has asked for by its name: it is left out, and not refused."""

    def may_somewhere(self, right: Right) -> bool:
        """With some name."""

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """A bit for each, of those that such a resource has."""

    def remembered(self, right: Right) -> Mapping[str, bool]:
        """What is known already, by name, for whoever asks of many in one step: it is what counts
        until something else is decided, and no longer. What is False or not there is asked for."""


class Unrestricted:
    """Where there is no access control."""

    def __init__(self) -> None:
        self.is_known = True

    def may(self, right: Right, name: str = CLUSTER_NAME) -> bool:
        return True

    def may_see(self, right: Right, name: str = CLUSTER_NAME) -> bool:
        return True

    def may_somewhere(self, right: Right) -> bool:
        return True

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        return _EVERYTHING[resource_type]

    def remembered(self, right: Right) -> Mapping[str, bool]:
        return _NOTHING_KNOWN


class Nothing:
    """Of whom nobody has let in."""

    is_known = True

    def may(self, right: Right, name: str = CLUSTER_NAME) -> bool:
        return False

    def may_see(self, right: Right, name: str = CLUSTER_NAME) -> bool:
        return False

    def may_somewhere(self, right: Right) -> bool:
        return False

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        return 0

    def remembered(self, right: Right) -> Mapping[str, bool]:
        return _NOTHING_KNOWN


_EVERYTHING: Final = {
    resource_type: sum(1 << operation for operation in operations)
    for resource_type, operations in OPERATIONS_ON.items()
}
_NOTHING_KNOWN: Final[Mapping[str, bool]] = {}
UNRESTRICTED: Final = Unrestricted()
NOTHING: Final = Nothing()

Refused = Callable[[Caller, Right, str], object]
"""Told of what was refused: who, what, and the name of the resource."""


class CallersRights:
    def __init__(
        self,
        caller: Caller,
        access_list: Callable[[], AccessListView],
        settings: AccessSettings,
        refused: Refused,
    ) -> None:
        """`access_list` gives the one that counts now, or raises AccessUnknown."""
        self._caller = caller
        self._access_list = access_list
        self._allows_if_no_rule = settings.allows_if_no_rule
        self._is_super = caller.principal in settings.super_users
        self._refused = refused
        self._remembered: dict[Right, dict[str, bool]] = {}
        """By name."""
        self._remembered_count = 0
        self._remembered_somewhere: dict[Right, bool] = {}
        self._decided_by: AccessListView | None = None
        self._decided_by_version = -1

    @property
    def is_known(self) -> bool:
        try:
            self._access_list()
        except AccessUnknown:
            return False
        return True

    def may(self, right: Right, name: str = CLUSTER_NAME) -> bool:
        known = self.may_see(right, name)
        if not known:
            self._refused(self._caller, right, name)
        return known

    def may_see(self, right: Right, name: str = CLUSTER_NAME) -> bool:
        access_list = self._current()
        by_name = self._remembered.get(right)
        known = None if by_name is None else by_name.get(name)
        if known is None:
            known = self._decide(access_list, right, name)
            self._remember(right, name, known)
        return known

    def remembered(self, right: Right) -> Mapping[str, bool]:
        self._current()
        return self._remembered.get(right, _NOTHING_KNOWN)

    def may_somewhere(self, right: Right) -> bool:
        access_list = self._current()
        known = self._remembered_somewhere.get(right)
        if known is None:
            # Every rule about the caller may have to be looked at.
            known = self._remembered_somewhere[right] = self._decide_somewhere(access_list, right)
        return known

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        access_list = self._current()
        if self._is_super or self._is_nobodys(access_list, resource_type, name):
            return _EVERYTHING[resource_type]
        caller = self._caller
        allowed = access_list.allowed(caller.principal, caller.host, resource_type, name)
        return allowed & _EVERYTHING[resource_type]

    def _current(self) -> AccessListView:
        access_list = self._access_list()
        version = access_list.version
        if access_list is not self._decided_by or version != self._decided_by_version:
            self._forget()
            self._decided_by, self._decided_by_version = access_list, version
        return access_list

    def _remember(self, right: Right, name: str, known: bool) -> None:
        if self._remembered_count >= REMEMBERED_MAX:
            self._forget()
        self._remembered.setdefault(right, {})[name] = known
        self._remembered_count += 1

    def _forget(self) -> None:
        self._remembered = {}
        self._remembered_count = 0
        self._remembered_somewhere.clear()

    def _decide(self, access_list: AccessListView, right: Right, name: str) -> bool:
        if self._is_super:
            return True
        caller = self._caller
        resource_type, operation = right
        if access_list.allowed(caller.principal, caller.host, resource_type, name) >> operation & 1:
            return True
        return self._is_nobodys(access_list, resource_type, name)

    def _decide_somewhere(self, access_list: AccessListView, right: Right) -> bool:
        caller = self._caller
        return self._decide(access_list, right, _SOME_NAME) or access_list.allows_somewhere(
            caller.principal, caller.host, right.operation, right.resource_type
        )

    def _is_nobodys(self, access_list: AccessListView, kind: ResourceType, name: str) -> bool:
        """Whether no rule is about it, and all may therefore do with it what they like."""
        return self._allows_if_no_rule and not access_list.names(kind, name)


_SOME_NAME: Final = "hardcode"
"""As Kafka has it: whoever may do it with a topic of this name may do it."""
