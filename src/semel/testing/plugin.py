"""Pytest fixtures: `semel_broker`, which all tests of a session share, `semel_topics` on it, which
are one test's own, and `semel_cluster`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from semel.testing.broker import Broker

if TYPE_CHECKING:
    from semel.testing.cluster import Cluster
    from semel.testing.topics import Topics


@pytest.fixture(scope="session")
def semel_broker() -> Iterator[Broker]:
    """A broker with `bootstrap_servers`, which tests share: `semel_topics` are a test's own."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def semel_topics(semel_broker: Broker, request: pytest.FixtureRequest) -> "Iterator[Topics]":
    """Topics of the test's own, gone at its end: `orders = semel_topics("orders", partitions=3)`.

    `semel_topics.named("orders")` is for code that has its names written in it.
    """
    from semel.testing.topics import Topics

    with Topics(semel_broker.bootstrap_servers, request.node.name) as topics:
        yield topics


@pytest.fixture
def semel_cluster() -> "Iterator[Cluster]":
    """Three nodes of the test's own, to be killed and frozen: `cluster.kill(cluster.leader)`."""
    from semel.testing.cluster import Cluster

    with Cluster() as cluster:
        yield cluster
