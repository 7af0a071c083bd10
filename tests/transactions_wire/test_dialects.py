"""Both dialects on one broker: a transaction is read when it is committed, and never if not."""

import pytest

from semel.testing import Broker
from semel.wire.messages.api_versions import ApiVersionsRequest
from support.kafka_codes import INVALID_TXN_STATE, NONE
from support.raw_client import RawClient
from support.transactional_wire import (
    OLDEST,
    TV1,
    TV2,
    Versions,
    WireProducer,
    fetch,
    list_offset,
)


@pytest.mark.parametrize("versions", [OLDEST, TV1, TV2], ids=["oldest", "TV1", "TV2"])
def test_a_commit_shows_all_partitions_and_an_abort_none(
    broker: Broker, client: RawClient, topic: str, name: str, versions: Versions
) -> None:
    with WireProducer(broker, name, versions) as producer:
        assert producer.init() == NONE
        for number in range(4):
            for partition in range(3):
                producer.write(topic, b"%d" % number, partition=partition)
            assert producer.end(commit=number % 2 == 0) == NONE
    for partition in range(3):
        found = fetch(client, topic, partition=partition)
        assert found.values == [b"0", b"1", b"2", b"3"]
        assert found.committed_values == [b"0", b"2"]
        assert [kind for _, _, kind in found.markers] == ["COMMIT", "ABORT", "COMMIT", "ABORT"]


def test_what_was_committed_is_there_when_the_commit_is_answered_and_the_next_may_begin(
    broker: Broker, client: RawClient, topic: str, name: str, versions: Versions
) -> None:
    with WireProducer(broker, name, versions) as producer:
        producer.init()
        for number in range(200):
            producer.write(topic, b"%d" % number)
            assert producer.commit() == NONE
            found = fetch(client, topic, 2 * number)
            assert found.committed_values == [b"%d" % number]
            assert found.last_stable_offset == found.high_watermark == 2 * number + 2


def test_each_transaction_of_tv2_has_an_epoch_of_its_own_and_tv1_keeps_one(
    broker: Broker, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV2) as new, WireProducer(broker, f"{name}-1", TV1) as old:
        new.init()
        old.init()
        epochs = []
        for commit in (True, False, True):
            new.write(topic, b"v")
            new.end(commit=commit)
            old.write(topic, b"v")
            old.end(commit=commit)
            epochs.append((new.epoch, old.epoch))
    assert epochs == [(1, 0), (2, 0), (3, 0)]


def test_a_client_may_change_its_dialect_between_transactions(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV1) as producer:
        producer.init()
        for number, versions in enumerate((TV1, TV2, TV1, TV2)):
            producer.versions = versions
            producer.write(topic, b"%d" % number)
            assert producer.commit() == NONE
    assert fetch(client, topic).committed_values == [b"0", b"1", b"2", b"3"]


def test_a_tv2_partition_joins_with_its_first_batch_and_a_tv1_partition_must_be_added(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV1) as producer:
        producer.init()
        assert producer.produce(topic, b"stray").error_code == INVALID_TXN_STATE
        producer.versions = TV2
        assert producer.produce(topic, b"v").error_code == NONE
        producer.versions = TV1
        assert producer.produce(topic, b"v", partition=1).error_code == INVALID_TXN_STATE
        assert producer.commit() == NONE
    assert fetch(client, topic).committed_values == [b"v"]
    assert list_offset(client, topic, 0, partition=1) == 0


def test_tv2_is_what_the_broker_says_it_speaks(client: RawClient) -> None:
    """Items 29 and 37: by v3 a least version of 0 is illegal, so that it is left out."""
    for version in (3, 4):
        answer = client.call("api_versions", version, ApiVersionsRequest("t", "1"))
        served = {each.api_key: each.max_version for each in answer.api_keys}
        assert [(each.name, each.max_version_level) for each in answer.finalized_features] == [
            ("transaction.version", 2)
        ]
        assert answer.finalized_features_epoch >= 0
        assert [each.min_version for each in answer.supported_features] == (
            [] if version == 3 else [0]
        )
        assert served[0] >= 12
        assert (served[26], served[28]) == (5, 6)
