"""As whom a client comes in: the principal that rights and quotas are given to."""

from typing import Final, NamedTuple, Self

USER: Final = "User"
"""The one type of principal that signs in."""

FIRST_LISTENER: Final = "PLAINTEXT"
"""The name of the listener where none is configured."""


class Principal(NamedTuple):
    """Written as Kafka writes it, `User:alice`: the name may have colons, the type has none."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError if this is none."""
        kind, colon, name = text.partition(":")
        if not (kind and colon and name):
            raise ValueError(f"{text!r} is no principal: one is written as User:alice")
        return cls(kind, name)


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""Who has not signed in, where that is not asked for."""


class Caller(NamedTuple):
    """Who sends the requests of a connection, and how they came in."""

    principal: Principal = ANONYMOUS
    listener: str = FIRST_LISTENER
    """The name of the listener."""
    host: str = ""
    """The client's address; empty if it has none."""
