"""A retry that comes after five other batches is looked up in the log, exactly."""

from collections.abc import Callable, Iterator

import pytest

from semel.records.records import Record, encode_batch
from semel.testing import Broker
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from support.raw_client import RawClient, produce

OUT_OF_ORDER = 45


Send = Callable[[int, bytes], tuple[int, int]]


@pytest.fixture
def send(semel_broker: Broker, request: pytest.FixtureRequest) -> Iterator[Send]:
    """Sends one record with a sequence; gives the error code and the base offset."""
    topic = request.node.name
    with RawClient(semel_broker) as client:
        client.create_topic(topic)
        given = client.call("init_producer_id", 4, InitProducerIdRequest())

        def send(sequence: int, value: bytes) -> tuple[int, int]:
            batch = encode_batch(
                [Record(None, value, 1)],
                producer_id=given.producer_id,
                producer_epoch=given.producer_epoch,
                base_sequence=sequence,
            )
            answer = produce(client, topic, batch)
            return answer.error_code, answer.base_offset

        yield send


def test_every_old_batch_is_answered_with_its_own_offset(
    send: Send,
) -> None:
    offsets = [send(sequence, b"value %d" % sequence) for sequence in range(300)]
    assert offsets == [(0, offset) for offset in range(300)]
    retried = [send(sequence, b"value %d" % sequence) for sequence in range(300)]
    assert retried == offsets
    assert send(300, b"the next") == (0, 300)


def test_old_sequences_with_other_records_are_out_of_order(
    send: Send,
) -> None:
    for sequence in range(10):
        send(sequence, b"value")
    assert send(1, b"other") == (OUT_OF_ORDER, -1)
    assert send(10, b"value") == (0, 10)


def test_a_sequence_that_was_never_sent_is_not_searched_for(
    send: Send,
) -> None:
    for sequence in range(100, 110):
        send(sequence, b"value")
    assert send(50, b"value") == (OUT_OF_ORDER, -1)
    assert send(200, b"value") == (OUT_OF_ORDER, -1)
