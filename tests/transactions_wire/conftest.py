"""A real broker whose numbers can be read, and a name and a topic of its own for each test."""

import itertools
from collections.abc import Iterator

import pytest

from semel.testing import Broker
from support.raw_client import METRICS, RawClient
from support.transactional_wire import TV1, TV2, Versions

_numbers = itertools.count()


@pytest.fixture(scope="package")
def broker() -> Iterator[Broker]:
    with Broker(arguments=METRICS) as broker:
        yield broker
        assert "Traceback" not in broker.complaints()


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker) as client:
        yield client


@pytest.fixture
def name() -> str:
    return f"name-{next(_numbers)}"


@pytest.fixture
def topic(client: RawClient, name: str) -> str:
    """With three partitions."""
    client.create_topic(name, 3)
    return name


@pytest.fixture(params=[TV1, TV2], ids=["TV1", "TV2"])
def versions(request: pytest.FixtureRequest) -> Versions:
    chosen: Versions = request.param
    return chosen
