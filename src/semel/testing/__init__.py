"""Real brokers for tests: `with Broker() as broker: ...`, `with Cluster() as cluster: ...`."""

from typing import TYPE_CHECKING

from semel.testing.broker import Broker

if TYPE_CHECKING:
    from semel.testing.cluster import Cluster

__all__ = ["Broker", "Cluster"]


def __getattr__(name: str) -> object:
    """What a cluster needs is loaded by those alone who want one."""
    if name == "Cluster":
        from semel.testing.cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
