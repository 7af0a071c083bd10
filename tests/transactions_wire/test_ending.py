"""Ending a transaction, and what stands in its way: items 13, 15, 16 and 27."""

import pytest

from semel.testing import Broker
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.wire.messages.describe_transactions import DescribeTransactionsRequest
from support.kafka_codes import (
    INVALID_TXN_STATE,
    NONE,
    OPERATION_NOT_ATTEMPTED,
    PRODUCER_FENCED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from support.raw_client import RawClient
from support.transactional_wire import TV1, TV2, Versions, WireProducer, answer_to, fetch, frame


def _end_again(client: RawClient, producer: WireProducer, epoch: int, *, commit: bool) -> int:
    """An EndTxn under that epoch; checks that a success names the epoch there is."""
    request = producer.end_request(commit=commit)
    request.producer_epoch = epoch
    answer = client.call("end_txn", producer.versions.end, request)
    if answer.error_code == NONE and producer.versions.end >= TV2.end:
        assert (answer.producer_id, answer.producer_epoch) == (
            producer.producer_id,
            producer.epoch,
        )
    return int(answer.error_code)


def test_13_tv2_a_retried_end_is_answered_with_the_epoch_it_had_led_to(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV2) as producer:
        producer.init()
        for commit in (True, False):
            producer.write(topic, b"v")
            epoch = producer.epoch
            assert producer.end(commit=commit) == NONE
            assert producer.epoch == epoch + 1
            for _ in range(2):
                assert _end_again(client, producer, epoch, commit=commit) == NONE
            other_way = _end_again(client, producer, epoch, commit=not commit)
            assert other_way in (INVALID_TXN_STATE, PRODUCER_FENCED)
    found = fetch(client, topic)
    assert found.committed_values == [b"v"]
    assert len(found.markers) == 2


@pytest.mark.parametrize("before", ["nothing", "commit", "abort"])
def test_13_tv2_an_abort_where_nothing_is_open_bumps_and_a_commit_is_refused(
    broker: Broker, topic: str, name: str, before: str
) -> None:
    with WireProducer(broker, name, TV2) as producer:
        producer.init()
        if before != "nothing":
            producer.write(topic, b"v")
            producer.end(commit=before == "commit")
        epoch = producer.epoch
        assert producer.commit() == INVALID_TXN_STATE
        assert producer.abort() == NONE
        assert producer.epoch == epoch + 1


def test_13_tv1_the_same_end_repeated_succeeds_and_the_other_is_refused(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV1) as producer:
        producer.init()
        assert producer.commit() == INVALID_TXN_STATE
        assert producer.abort() == INVALID_TXN_STATE
        for commit in (True, False):
            producer.write(topic, b"v")
            assert producer.end(commit=commit) == NONE
            assert producer.end(commit=commit) == NONE
            assert producer.end(commit=not commit) == INVALID_TXN_STATE
    assert len(fetch(client, topic).markers) == 2


def test_15_one_unknown_partition_keeps_all_from_being_added(
    broker: Broker, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV1) as producer:
        producer.init()
        assert producer.add_many({topic: (0, 77, 1), "nowhere": (0,)}) == [
            OPERATION_NOT_ATTEMPTED,
            UNKNOWN_TOPIC_OR_PARTITION,
            OPERATION_NOT_ATTEMPTED,
            UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert producer.produce(topic, b"x").error_code == INVALID_TXN_STATE
        assert producer.add(topic, 0, 1) == [NONE, NONE]


def test_16_an_abort_sent_before_the_partitions_were_answered_ends_them_too(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV1) as producer:
        producer.init()
        producer.client.send(
            frame("add_partitions_to_txn", 3, producer.add_request({topic: (0,)}))
            + frame("produce", 11, producer.produce_request(topic, [b"v"]))
            + frame("end_txn", 4, producer.end_request(commit=False))
        )
        assert answer_to(producer.client, "add_partitions_to_txn", 3) is not None
        assert answer_to(producer.client, "produce", 11) is not None
        assert answer_to(producer.client, "end_txn", 4).error_code == NONE
        found = fetch(client, topic)
        assert found.last_stable_offset == found.high_watermark == 2
        assert found.committed_values == []


@pytest.mark.parametrize("commit", [True, False])
def test_27_a_topic_deleted_in_mid_transaction_drops_out_of_it(
    broker: Broker, client: RawClient, topic: str, name: str, versions: Versions, commit: bool
) -> None:
    doomed = f"{name}-doomed"
    client.create_topic(doomed)
    with WireProducer(broker, name, versions) as producer:
        producer.init()
        producer.write(topic, b"stays")
        producer.write(doomed, b"goes")
        request = DeleteTopicsRequest([DeleteTopicState(doomed)])
        assert client.call("delete_topics", 6, request).responses[0].error_code == NONE
        (state,) = client.call(
            "describe_transactions", 0, DescribeTransactionsRequest([name])
        ).transaction_states
        assert [each.topic for each in state.topics] == [topic]
        assert producer.produce(doomed, b"gone").error_code == UNKNOWN_TOPIC_OR_PARTITION
        assert producer.end(commit=commit) == NONE
        client.create_topic(doomed)
        producer.write(doomed, b"anew")
        assert producer.commit() == NONE
    assert fetch(client, topic).committed_values == ([b"stays"] if commit else [])
    assert fetch(client, doomed).committed_values == [b"anew"]


def test_27_a_transaction_whose_only_topic_was_deleted_still_ends(
    broker: Broker, client: RawClient, topic: str, name: str, versions: Versions
) -> None:
    with WireProducer(broker, name, versions) as producer:
        producer.init()
        producer.write(topic, b"goes")
        request = DeleteTopicsRequest([DeleteTopicState(topic)])
        assert client.call("delete_topics", 6, request).responses[0].error_code == NONE
        assert producer.commit() == NONE
