"""Another worker of this machine, as all of them know each other."""

from typing import NamedTuple


class Neighbour(NamedTuple):
    """It is always there, or will be again."""

    node_id: int
    host: str
    """On which it listens."""
    port: int
    advertised: tuple[str, int] | None
