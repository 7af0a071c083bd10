"""Real brokers for tests: `with Broker() as broker: ...`, `with Cluster() as cluster: ...`."""

from typing import TYPE_CHECKING

from semel.testing.broker import Broker

if TYPE_CHECKING:
    from semel.testing.cluster import Cluster
    from semel.testing.topics import Topics

__all__ = ["Broker", "Cluster", "Topics"]


def __getattr__(name: str) -> object:
    """What these need is loaded by those alone who want one."""
    if name == "Cluster":
        from semel.testing.cluster import Cluster

        return Cluster
    if name == "Topics":
        from semel.testing.topics import Topics

        return Topics
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
