"""A pytest plugin that puts Apache Kafka in the place of our broker.

The tests of the client, of the command line and of pipelines then show that they work with any
Kafka; the Makefile says which:

    pytest -p no:semel -p peers.kafka_in_place tests/cli tests/client
"""

from collections.abc import Iterator

import pytest
from peers.kafka_broker import Kafka


@pytest.fixture(scope="session")
def semel_broker() -> Iterator[Kafka]:
    """As the fixture of this name that comes with Semel."""
    with Kafka() as kafka:
        yield kafka
