"""One broker for all tests of this folder, and a topic of its own for each."""

import itertools
from collections.abc import Iterator

import pytest

from semel.testing import Broker
from support.clients import CLIENTS, Client

_numbers = itertools.count()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker(settings={"num.partitions": 3, "group.min.session.timeout.ms": 1000}) as broker:
        yield broker


@pytest.fixture
def servers(broker: Broker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_numbers)}"


@pytest.fixture
def group() -> str:
    return f"group-{next(_numbers)}"


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    chosen: Client = request.param
    return chosen


@pytest.fixture(autouse=True)
def clients(connects_in_vain_are_closed: None) -> None:
    """Of all that run here some are in vain."""
