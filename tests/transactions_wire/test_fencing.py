"""One incarnation of a transactional id is alive: items 10 to 12, 14, 17 and 18."""

import pytest

from semel.testing import Broker
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from support.kafka_codes import (
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_REQUEST,
    INVALID_TRANSACTION_TIMEOUT,
    NONE,
    PRODUCER_FENCED,
)
from support.raw_client import RawClient
from support.transactional_wire import (
    OLDEST,
    TV1,
    TV2,
    Versions,
    WireProducer,
    answer_to,
    fetch,
    frame,
)

EPOCH_LAST = 32766


def test_a_new_incarnation_rolls_back_what_the_old_one_left_before_it_starts(
    broker: Broker, client: RawClient, topic: str, name: str, versions: Versions
) -> None:
    with WireProducer(broker, name, versions) as old, WireProducer(broker, name, versions) as new:
        old.init()
        old.write(topic, b"left")
        assert new.init() == NONE
        assert (new.producer_id, new.epoch) == (old.producer_id, old.epoch + 1)
        found = fetch(client, topic)
        assert found.committed_values == []
        assert found.last_stable_offset == found.high_watermark == 2
        new.write(topic, b"new")
        assert old.commit() == PRODUCER_FENCED
        assert new.commit() == NONE
    assert fetch(client, topic).committed_values == [b"new"]


@pytest.mark.parametrize(
    ("versions", "code"), [(OLDEST, INVALID_PRODUCER_EPOCH), (TV1, PRODUCER_FENCED)]
)
def test_10_coordinator_requests_of_a_fenced_producer_are_told_so_in_the_words_of_their_version(
    broker: Broker, topic: str, name: str, versions: Versions, code: int
) -> None:
    with WireProducer(broker, name, versions) as old, WireProducer(broker, name) as new:
        old.init()
        new.init()
        assert old.add(topic, 0) == [code]
        assert old.add_offsets("g") == code
        assert old.commit() == code
        assert old.abort() == code
        assert old.commit_offsets("g", {(topic, 0): 1}) == [INVALID_PRODUCER_EPOCH]
        if versions is TV1:
            assert old.init(named=True) == code


def test_10_init_producer_id_before_v4_says_invalid_epoch(
    broker: Broker, client: RawClient, name: str
) -> None:
    with WireProducer(broker, name) as producer:
        producer.init()
        producer.init()
        for version, code in ((3, INVALID_PRODUCER_EPOCH), (4, PRODUCER_FENCED)):
            request = InitProducerIdRequest(name, 60_000, producer.producer_id, 0)
            assert client.call("init_producer_id", version, request).error_code == code


def test_11_epochs_end_at_32766_and_go_on_with_a_new_producer_id(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV2) as producer:
        producer.init()
        first_id = producer.producer_id
        raw = frame("init_producer_id", 5, InitProducerIdRequest(name, 60_000))
        # Many at once; each is answered, and none is given twice.
        left = EPOCH_LAST
        while left:
            count = min(left, 200)
            client.send(raw * count)
            for _ in range(count):
                answer = answer_to(client, "init_producer_id", 5)
            left -= count
        assert (answer.producer_id, answer.producer_epoch) == (first_id, EPOCH_LAST)
        producer.adopt(first_id, EPOCH_LAST)
        producer.write(topic, b"last epoch")
        ended = producer.end_request(commit=True)
        assert producer.commit() == NONE
        assert producer.producer_id > first_id
        assert producer.epoch == 0
        retried = client.call("end_txn", 5, ended)
        assert (retried.error_code, retried.producer_id, retried.producer_epoch) == (
            NONE,
            producer.producer_id,
            0,
        )
        producer.write(topic, b"new id")
        assert producer.commit() == NONE
    assert fetch(client, topic).committed_values == [b"last epoch", b"new id"]


def test_12_a_retried_bump_is_answered_with_the_epoch_it_was_given(
    broker: Broker, name: str
) -> None:
    with WireProducer(broker, name, TV1) as producer:
        producer.init()
        first_epoch = producer.epoch
        for _ in range(3):
            producer.epoch = first_epoch
            assert producer.init(named=True) == NONE
            assert producer.epoch == first_epoch + 1


def test_rule_10_a_zombie_that_names_itself_is_not_handed_its_successors_epoch(
    broker: Broker, name: str
) -> None:
    with WireProducer(broker, name, TV1) as zombie, WireProducer(broker, name, TV1) as heir:
        zombie.init()
        heir.init()
        assert zombie.init(named=True) == PRODUCER_FENCED


@pytest.mark.parametrize("versions", [TV1, TV2], ids=["TV1", "TV2"])
def test_14_a_commit_behind_a_timeout_is_fenced_and_its_holder_may_ask_for_the_next_epoch(
    broker: Broker, client: RawClient, topic: str, name: str, versions: Versions
) -> None:
    with WireProducer(broker, name, versions, timeout_ms=500) as producer:
        producer.init()
        producer.write(topic, b"too slow")
        # Answered when the transaction has ended, as the last stable offset then moves.
        found = fetch(client, topic, max_wait_ms=30_000)
        assert found.markers == [(1, producer.producer_id, "ABORT")]
        assert found.committed_values == []
        assert producer.commit() == PRODUCER_FENCED
        assert producer.produce(topic, b"late").error_code == INVALID_PRODUCER_EPOCH
        producer.timeout_ms = 60_000
        assert producer.init(named=True) == NONE
        producer.write(topic, b"in time")
        assert producer.commit() == NONE
    assert fetch(client, topic).committed_values == [b"in time"]


@pytest.mark.parametrize("timeout_ms", [15 * 60_000 + 1, 0, -1])
def test_17_a_timeout_out_of_bounds_is_refused(broker: Broker, name: str, timeout_ms: int) -> None:
    with WireProducer(broker, name, timeout_ms=timeout_ms) as producer:
        assert producer.init() == INVALID_TRANSACTION_TIMEOUT


def test_17_no_transactional_id_gets_a_fresh_producer_id_and_an_empty_one_is_refused(
    client: RawClient,
) -> None:
    request = InitProducerIdRequest(None, 1)
    answers = [client.call("init_producer_id", 4, request) for _ in range(2)]
    assert [answer.producer_epoch for answer in answers] == [0, 0]
    assert answers[0].producer_id != answers[1].producer_id
    assert client.call("init_producer_id", 4, InitProducerIdRequest("", 1)).error_code == (
        INVALID_REQUEST
    )


def test_18_an_expired_transactional_id_is_unknown_unless_its_transaction_is_open() -> None:
    settings = {
        "transactional.id.expiration.ms": 1_000,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 1,
    }
    with (
        Broker(settings=settings) as broker,
        RawClient(broker) as client,
        WireProducer(broker, "idle") as idle,
        WireProducer(broker, "busy") as busy,
        WireProducer(broker, "late", timeout_ms=1_500) as late,
    ):
        client.create_topic("t")
        client.create_topic("u")
        idle.init()
        busy.init()
        busy.write("t", b"open")
        late.init()
        late.write("u", b"timer")
        # The housekeeping that has ended this one has expired what was idle before.
        fetch(client, "u", max_wait_ms=30_000)
        busy.write("t", b"still open")
        assert busy.commit() == NONE
        assert idle.produce("t", b"x").error_code == INVALID_PRODUCER_ID_MAPPING
        assert idle.commit() == INVALID_PRODUCER_ID_MAPPING
        assert idle.init() == NONE


def test_a_producer_that_names_an_id_which_is_not_its_own_is_refused(
    broker: Broker, client: RawClient, topic: str, name: str, versions: Versions
) -> None:
    with WireProducer(broker, name, versions) as one, WireProducer(broker, f"{name}-2") as other:
        one.init()
        other.init()
        one.transactional_id = other.transactional_id
        assert one.add(topic, 0) == [INVALID_PRODUCER_ID_MAPPING]
        assert one.produce(topic, b"x").error_code == INVALID_PRODUCER_ID_MAPPING
        assert one.commit() == INVALID_PRODUCER_ID_MAPPING
    assert fetch(client, topic).high_watermark == 0
