"""A pytest plugin that puts two workers in the place of our broker, each with a lane of its own.

What the tests say of one broker then is to hold for several; the Makefile says which:

    pytest -p no:semel -p peers.workers_in_place peers/test_franz_go.py peers/test_java_client.py
"""

from collections.abc import Iterator

import pytest

from semel.testing import Broker


@pytest.fixture(scope="session")
def semel_broker() -> Iterator[Broker]:
    """As the fixture of this name that comes with Semel."""
    with Broker(workers=2) as broker:
        yield broker
