"""A pytest plugin that puts three nodes with three lanes on a store in the place of our broker.

pytest -p no:semel -p peers.lanes_in_place peers/test_franz_go.py peers/test_java_client.py
"""

from collections.abc import Iterator

import pytest

from semel.testing import Cluster


@pytest.fixture(scope="session")
def semel_broker() -> Iterator[Cluster]:
    """As the fixture of this name that comes with Semel."""
    with Cluster(lanes=3) as cluster:
        yield cluster
