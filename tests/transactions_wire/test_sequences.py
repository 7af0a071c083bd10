"""What implementers get wrong about sequences and epochs in a partition: items 1 to 9.

Items 1 (wrap), 3 and 4 for plain idempotent producers are tests of the pure `log` package; here
they are asked at the wire, in transactions.
"""

import pytest

from semel.testing import Broker
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from support.kafka_codes import (
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    TRANSACTION_ABORTABLE,
    UNKNOWN_PRODUCER_ID,
)
from support.raw_client import RawClient, produce
from support.transactional_wire import TV1, TV2, Versions, WireProducer, fetch

LAST_SEQUENCE = 2**31 - 1


def test_1_the_sequence_after_the_largest_is_zero(broker: Broker, topic: str, name: str) -> None:
    with WireProducer(broker, name, TV1) as producer:
        producer.init()
        producer.add(topic, 0)
        assert producer.produce(topic, b"a", b"b", sequence=LAST_SEQUENCE - 1).error_code == NONE
        assert producer.produce(topic, b"c", sequence=0).error_code == NONE
        assert producer.commit() == NONE


def test_2_a_retry_is_answered_with_the_offset_of_its_original(
    broker: Broker, client: RawClient, topic: str, name: str, versions: Versions
) -> None:
    with WireProducer(broker, name, versions) as producer:
        producer.init()
        producer.write(topic, b"zero")
        for sequence in range(1, 6):
            assert producer.produce(topic, b"%d" % sequence).base_offset == sequence
        for sequence in range(1, 6):
            retried = producer.produce(topic, b"%d" % sequence, sequence=sequence)
            assert (retried.error_code, retried.base_offset) == (NONE, sequence)
        producer.commit()
    assert fetch(client, topic).values == [b"zero", b"1", b"2", b"3", b"4", b"5"]


def test_3_a_gap_is_out_of_order(broker: Broker, topic: str, name: str, versions: Versions) -> None:
    with WireProducer(broker, name, versions) as producer:
        producer.init()
        producer.write(topic, b"a")
        refused = producer.produce(topic, b"c", sequence=2)
        assert refused.error_code == OUT_OF_ORDER_SEQUENCE_NUMBER
        assert producer.produce(topic, b"b", sequence=1).error_code == NONE


def test_4_an_unknown_producer_begins_anywhere_under_tv1_and_at_zero_under_tv2(
    broker: Broker, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV1) as old, WireProducer(broker, f"{name}-2", TV2) as new:
        old.init()
        new.init()
        old.add(topic, 0)
        assert old.produce(topic, b"a", sequence=7).error_code == NONE
        assert new.produce(topic, b"a", sequence=7).error_code == OUT_OF_ORDER_SEQUENCE_NUMBER
        assert new.produce(topic, b"a", sequence=0).error_code == NONE


def test_5_a_new_epoch_begins_at_zero_and_forgets_the_batches_of_the_last(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV2) as producer:
        producer.init()
        producer.write(topic, b"a")
        producer.commit()
        assert producer.produce(topic, b"b", sequence=1).error_code == OUT_OF_ORDER_SEQUENCE_NUMBER
        # The same bytes and sequence as before, but no retry: it is another epoch.
        assert producer.produce(topic, b"a", sequence=0).base_offset == 2
        producer.commit()
    assert fetch(client, topic).committed_values == [b"a", b"a"]


def test_6_an_abort_forgets_the_aborted_batches_and_no_committed_ones(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV1) as producer:
        producer.init()
        producer.write(topic, b"kept")
        producer.commit()
        producer.add(topic, 0)
        assert producer.produce(topic, b"dropped", sequence=1).error_code == NONE
        producer.abort()
        producer.add(topic, 0)
        # Used again with other records, as librdkafka and Java do.
        assert producer.produce(topic, b"again", sequence=1).error_code == NONE
        retried = producer.produce(topic, b"kept", sequence=0)
        assert (retried.error_code, retried.base_offset) == (NONE, 0)
        assert producer.commit() == NONE
    assert fetch(client, topic).committed_values == [b"kept", b"again"]


@pytest.mark.parametrize("goes_on_at", [1, 2, 3])
def test_6_after_an_abort_any_sequence_from_the_aborted_ones_to_the_next_is_taken(
    broker: Broker, client: RawClient, topic: str, name: str, goes_on_at: int
) -> None:
    with WireProducer(broker, name, TV1) as producer:
        producer.init()
        producer.write(topic, b"kept")
        producer.commit()
        producer.add(topic, 0)
        producer.produce(topic, b"x", sequence=1)
        producer.produce(topic, b"y", sequence=2)
        producer.abort()
        producer.add(topic, 0)
        assert producer.produce(topic, b"new", sequence=4).error_code == (
            OUT_OF_ORDER_SEQUENCE_NUMBER
        )
        assert producer.produce(topic, b"new", sequence=goes_on_at).error_code == NONE
        producer.commit()
    assert fetch(client, topic).committed_values == [b"kept", b"new"]


@pytest.mark.parametrize(
    ("versions", "code"), [(TV1, UNKNOWN_PRODUCER_ID), (TV2, TRANSACTION_ABORTABLE)]
)
def test_rule_11_the_same_sequence_with_other_records_dooms_the_transaction(
    broker: Broker, client: RawClient, topic: str, name: str, versions: Versions, code: int
) -> None:
    with WireProducer(broker, name, versions) as producer:
        producer.init()
        producer.write(topic, b"a")
        assert producer.produce(topic, b"b", sequence=0).error_code == code
        assert producer.commit() == code
        assert producer.abort() == NONE
    assert fetch(client, topic).committed_values == []


def test_rule_11_what_joins_in_the_request_that_dooms_does_not_undo_it(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV2) as producer:
        producer.init()
        producer.write(topic, b"a")
        data = [PartitionProduceData(index, producer.batch([b"b"], 0)) for index in (0, 1)]
        request = ProduceRequest(name, -1, 1, [TopicProduceData(topic, data)])
        answers = client.call("produce", 12, request).responses[0].partition_responses
        assert {each.error_code for each in answers} == {TRANSACTION_ABORTABLE}
        assert producer.commit() == TRANSACTION_ABORTABLE
        assert producer.abort() == NONE
    assert fetch(client, topic).committed_values == []


def test_8_a_plain_batch_of_a_producer_with_an_open_transaction_is_refused(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV2) as producer:
        producer.init()
        producer.write(topic, b"a")
        plain = producer.batch([b"b"], 1, is_transactional=False)
        assert produce(client, topic, plain).error_code == INVALID_TXN_STATE
        assert produce(client, topic, producer.batch([b"b"], 1)).error_code == INVALID_TXN_STATE
        with_id = ProduceRequest(
            name, -1, 1, [TopicProduceData(topic, [PartitionProduceData(0, plain)])]
        )
        (answer,) = client.call("produce", 12, with_id).responses[0].partition_responses
        assert answer.error_code == INVALID_TXN_STATE
        assert producer.commit() == NONE
    assert fetch(client, topic).values == [b"a"]


def test_8_batches_of_two_producers_in_one_request_are_refused(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name) as one, WireProducer(broker, f"{name}-2") as other:
        one.init()
        other.init()
        data = [
            PartitionProduceData(0, one.batch([b"a"])),
            PartitionProduceData(1, other.batch([b"b"])),
        ]
        request = ProduceRequest(name, -1, 1, [TopicProduceData(topic, data)])
        answers = client.call("produce", 12, request).responses[0].partition_responses
        assert {answer.error_code for answer in answers} == {INVALID_PRODUCER_ID_MAPPING}
    assert fetch(client, topic).high_watermark == 0


def test_9_a_stale_epoch_is_said_before_anything_else(
    broker: Broker, topic: str, name: str, versions: Versions
) -> None:
    with WireProducer(broker, name, versions) as zombie, WireProducer(broker, name) as heir:
        zombie.init()
        zombie.write(topic, b"left open")
        heir.init()
        # Not added, out of order and of a dead transaction: but above all it is stale.
        refused = zombie.produce(topic, b"late", partition=2, sequence=99)
        assert refused.error_code == INVALID_PRODUCER_EPOCH


def test_as_many_batches_of_a_partition_that_is_named_often_are_stored_as_are_told_so(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name) as producer:
        producer.init()
        data = [PartitionProduceData(0, producer.batch([b"%d" % each], each)) for each in range(3)]
        request = ProduceRequest(name, -1, 1, [TopicProduceData(topic, data)])
        answers = client.call("produce", 12, request).responses[0].partition_responses
        assert len(answers) == 3
        taken = [answer for answer in answers if answer.error_code == NONE]
        assert len(fetch(client, topic, isolation=0).values) == len(taken)
