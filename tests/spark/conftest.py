"""One local Spark session for all tests of a process: starting one takes longer than most tests."""

import os
from collections.abc import Iterator

import pytest

import semel.spark
from semel.testing import Broker
from support import topics

# Each Java lives for seconds, and is done sooner if it compiles less.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def spark(semel_broker: Broker) -> Iterator[semel.spark.Session]:
    with semel.spark.session(broker=semel_broker) as session:
        assert isinstance(session, semel.spark.Session)
        yield session


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """For topics and ids that no other test uses."""
    return topics.name_for(request)
