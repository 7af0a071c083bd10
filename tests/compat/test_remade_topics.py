"""librdkafka asks for topics by id: one that was made anew is not read before it is known."""

import logging

import confluent_kafka
import pytest

from semel.testing import Broker
from support import topics

DEADLINE_S = 60


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def test_a_consumer_of_librdkafka_goes_on_in_a_topic_that_was_made_anew(
    semel_broker: Broker, request: pytest.FixtureRequest
) -> None:
    servers, topic = semel_broker.bootstrap_servers, topics.name_for(request)
    topics.create(servers, topic)
    topics.fill(servers, topic, [b"old"])
    lines = _Lines()
    logger = logging.getLogger(topic)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(lines)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "debug": "fetch",
        },
        logger=logger,
    )
    try:
        consumer.subscribe([topic])
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        assert (message.value(), message.offset()) == (b"old", 0)
        topics.delete(servers, topic)
        topics.create(servers, topic)
        topics.fill(servers, topic, [b"new 0", b"new 1"])
        message = consumer.poll(DEADLINE_S)
        # Where it goes on is its own decision: it keeps its offset.
        assert message is not None
        assert (message.value(), message.offset()) == (b"new 1", 1)
    finally:
        consumer.close()
    assert any("UNKNOWN_TOPIC_ID" in line for line in lines.said)
