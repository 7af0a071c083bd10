"""Three real nodes on versitygw: the scenarios of other stores."""

from collections.abc import Iterator

import pytest
from peers.versitygw import BUCKET, Versitygw

from cluster.test_processes import *  # noqa: F403
from semel.testing import Cluster


@pytest.fixture(scope="module")
def server() -> Iterator[Versitygw]:
    with Versitygw() as running:
        yield running


@pytest.fixture
def semel_cluster(
    request: pytest.FixtureRequest, server: Versitygw, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    """Instead of one on a folder."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    path = request.node.name.replace("[", "-").replace("]", "")
    with Cluster(store=f"s3://{BUCKET}/{path}") as running:
        yield running
