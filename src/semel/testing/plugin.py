"""Pytest fixtures: `semel_broker`, which all tests of a session share, and `semel_cluster`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from semel.testing.broker import Broker

if TYPE_CHECKING:
    from semel.testing.cluster import Cluster


@pytest.fixture(scope="session")
def semel_broker() -> Iterator[Broker]:
    """A broker with `bootstrap_servers`; tests share it, so let each use topics of its own."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def semel_cluster() -> "Iterator[Cluster]":
    """Three nodes of the test's own, to be killed and frozen: `cluster.kill(cluster.leader)`."""
    from semel.testing.cluster import Cluster

    with Cluster() as cluster:
        yield cluster
