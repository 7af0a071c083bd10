"""The users of a cluster: a state machine of its own, which lives in lane 0.

Law: it changes only when a fact is applied; what stands in it is replaced, never changed.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

from semel.access.scram import Credential, Mechanism

NAME_SIZE_MAX: Final = 1_024
NO_CREDENTIALS: Final[Mapping[Mechanism, Credential]] = MappingProxyType({})


_Counted = TypeVar("_Counted")
Shape = tuple[Mechanism, int, int]
"""Of a credential: iterations, and the size of the salt."""


def by_which_checked(known: Mapping[Mechanism, Credential]) -> Credential | None:
    """A password that is sent itself: the cheaper one, if there are both."""
    return known.get(Mechanism.SCRAM_SHA_256) or known.get(Mechanism.SCRAM_SHA_512)


class UsersView(Protocol):
    """What may be read of it."""

    @property
    def salt_key(self) -> bytes:
        """From which the salts of users come that there are not; empty before the first user."""

    @property
    def change_count(self) -> int: ...

    @property
    def shapes(self) -> Mapping[Shape, int]:
        """Of all credentials, and how many have each."""

    @property
    def checks(self) -> Mapping[tuple[Mechanism, int], int]:
        """By which a password is checked that is sent itself: mechanism and iterations, and of how
        many users."""

    def __iter__(self) -> Iterator[str]: ...

    def __len__(self) -> int: ...

    def of(self, name: str) -> Mapping[Mechanism, Credential]:
        """The credentials of a user; none if there is no such user."""


class Users:
    def __init__(self) -> None:
        self.by_name: dict[str, Mapping[Mechanism, Credential]] = {}
        self.shapes: Counter[Shape] = Counter()
        self.checks: Counter[tuple[Mechanism, int]] = Counter()
        self.salt_key = b""
        self.change_count = 0

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    def of(self, name: str) -> Mapping[Mechanism, Credential]:
        return self.by_name.get(name, NO_CREDENTIALS)

    def set(self, name: str, credential: Credential) -> None:
        self.tell(name, {**self.of(name), credential.mechanism: credential})

    def drop(self, name: str, mechanism: Mechanism) -> None:
        """If it is there."""
        left = {key: kept for key, kept in self.of(name).items() if key is not mechanism}
        self.tell(name, left)

    def tell(self, name: str, credentials: Mapping[Mechanism, Credential]) -> None:
        """These are all that the user has."""
        self.change_count += 1
        self._count(self.of(name), -1)
        self._count(credentials, 1)
        if credentials:
            self.by_name[name] = MappingProxyType(dict(credentials))
        else:
            self.by_name.pop(name, None)

    def _count(self, credentials: Mapping[Mechanism, Credential], more: int) -> None:
        for each in credentials.values():
            _add(self.shapes, (each.mechanism, each.iterations, len(each.salt)), more)
        if (checked := by_which_checked(credentials)) is not None:
            _add(self.checks, (checked.mechanism, checked.iterations), more)

    def draw(self, salt_key: bytes) -> None:
        self.change_count += 1
        self.salt_key = salt_key


def _add(counter: Counter[_Counted], key: _Counted, more: int) -> None:
    counter[key] += more
    if not counter[key]:
        del counter[key]
