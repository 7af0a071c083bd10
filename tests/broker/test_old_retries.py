"""A retry that comes after five other batches is looked up in the log, exactly."""

from collections.abc import Callable, Iterator

import pytest

from semel.records.records import Record, encode_batch
from semel.testing import Broker
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from support.raw_client import RawClient, fetched_values, produce

OUT_OF_ORDER = 45


Batch = Callable[[int, bytes], bytes]
Send = Callable[[int, bytes], tuple[int, int]]


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


@pytest.fixture
def client(semel_broker: Broker, topic: str) -> Iterator[RawClient]:
    with RawClient(semel_broker) as client:
        client.create_topic(topic)
        yield client


@pytest.fixture
def batch(client: RawClient) -> Batch:
    """One record of one producer under this sequence."""
    given = client.call("init_producer_id", 4, InitProducerIdRequest())
    return lambda sequence, value: encode_batch(
        [Record(None, value, 1)],
        producer_id=given.producer_id,
        producer_epoch=given.producer_epoch,
        base_sequence=sequence,
    )


@pytest.fixture
def send(client: RawClient, topic: str, batch: Batch) -> Send:
    """Sends one record with a sequence; gives the error code and the base offset."""

    def send(sequence: int, value: bytes) -> tuple[int, int]:
        answer = produce(client, topic, batch(sequence, value))
        return answer.error_code, answer.base_offset

    return send


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


def test_an_old_retry_without_acks_is_stored_once_and_gets_no_reply(
    client: RawClient, topic: str, batch: Batch
) -> None:
    for sequence in range(10):
        client.send_produce_without_acks(topic, batch(sequence, b"%d" % sequence))
    for sequence in range(10):
        client.send_produce_without_acks(topic, batch(sequence, b"%d" % sequence))
    client.send_produce_without_acks(topic, batch(10, b"10"))
    # A reply to any of them would be taken for the reply to the next request.
    answer = produce(client, topic, batch(11, b"11"))
    assert (answer.error_code, answer.base_offset) == (0, 11)
    assert fetched_values(client, topic) == [b"%d" % number for number in range(12)]


def test_an_old_sequence_with_other_records_and_without_acks_closes_the_connection(
    client: RawClient, topic: str, batch: Batch
) -> None:
    for sequence in range(10):
        client.send_produce_without_acks(topic, batch(sequence, b"value"))
    client.send_produce_without_acks(topic, batch(1, b"other"))
    assert client.is_closed_by_broker
