"""What is tortured, as far as a run knows it."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple, Protocol


class Host(NamedTuple):
    node_id: int
    port: int
    """Where it is asked past its proxy, if it has one."""


class Subject(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def deeds(self) -> Sequence[str]:
        """What can be done to it."""

    @property
    def hosts(self) -> Sequence[Host]: ...

    @property
    def asked_port(self) -> int:
        """Of one that can tell how things are."""

    def strike(self, deed: str, random: Random) -> str:
        """Do it, and say to whom; others may not lead yet."""

    def until_led(self) -> str:
        """Return when all there is is led again, and say by whom."""

    def mend(self) -> None:
        """All run again, and nobody is frozen or cut off."""
