"""The pytest fixture `semel_broker`: one ephemeral broker for all tests of a session."""

from collections.abc import Iterator

import pytest

from semel.testing.broker import Broker


@pytest.fixture(scope="session")
def semel_broker() -> Iterator[Broker]:
    """A broker with `bootstrap_servers`; tests share it, so let each use topics of its own."""
    with Broker() as broker:
        yield broker
