"""A real broker whose numbers can be read, with one topic `t` of one record."""

from collections.abc import Iterator

import pytest

from semel.testing import Broker
from support.raw_client import METRICS, RawClient, produce_values


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(arguments=METRICS, settings={"group.min.session.timeout.ms": 1}) as broker:
        with RawClient(broker) as client:
            client.create_topic("t")
            produce_values(client, "t", [b"first"])
        yield broker
        # Whatever a test has sent, the broker never met an error that it did not expect.
        assert "Traceback" not in broker.complaints()
