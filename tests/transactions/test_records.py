"""The bytes of `__transaction_state`: Kafka's are read, and Kafka can read ours."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import CorruptJournal
from semel.records.partitioning import partition_for
from semel.transactions.records import decode, encode
from semel.transactions.transaction import NO_TERM, Status, Transaction, dead
from semel.types import (
    NO_PRODUCER_ID,
    ProducerEpoch,
    ProducerId,
    Term,
    TopicPartition,
    TransactionalId,
)

KEY = b"\x00\x00\x00\x02tx"
ID = TransactionalId("tx")
ONGOING = Transaction(
    transactional_id=ID,
    producer_id=ProducerId(258),
    producer_epoch=ProducerEpoch(7),
    timeout_ms=60_000,
    status=Status.ONGOING,
    partitions=frozenset({TopicPartition("b", 1), TopicPartition("a", 3), TopicPartition("a", 0)}),
    started_at_ms=1_000,
    last_update_ms=2_000,
)

# Version 0: producer id, epoch, timeout, status, partitions, last update, start.
KAFKA_V0 = (
    b"\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x01\x02"
    b"\x00\x07"
    b"\x00\x00\xea\x60"
    b"\x01"
    b"\x00\x00\x00\x02"
    b"\x00\x01a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03"
    b"\x00\x01b\x00\x00\x00\x01\x00\x00\x00\x01"
    b"\x00\x00\x00\x00\x00\x00\x07\xd0"
    b"\x00\x00\x00\x00\x00\x00\x03\xe8"
)
KAFKA_V1 = (
    b"\x00\x01"
    b"\x00\x00\x00\x00\x00\x00\x01\x02"
    b"\x00\x07"
    b"\x00\x00\xea\x60"
    b"\x01"
    b"\x03"
    b"\x02a\x03\x00\x00\x00\x00\x00\x00\x00\x03\x00"
    b"\x02b\x02\x00\x00\x00\x01\x00"
    b"\x00\x00\x00\x00\x00\x00\x07\xd0"
    b"\x00\x00\x00\x00\x00\x00\x03\xe8"
)


def changed(**fields: Any) -> Transaction:
    return Transaction(
        **({name: getattr(ONGOING, name) for name in ONGOING.__struct_fields__} | fields)
    )


def test_a_value_of_kafka_version_0_is_read() -> None:
    assert decode(KEY, KAFKA_V0) == ONGOING


def test_a_value_of_kafka_version_1_is_read_and_written_byte_for_byte() -> None:
    assert decode(KEY, KAFKA_V1 + b"\x00") == ONGOING
    assert encode(ONGOING) == (KEY, KAFKA_V1 + b"\x00")


def test_the_tagged_fields_of_kafka_are_read_and_written() -> None:
    value = changed(
        previous_producer_id=ProducerId(1), next_producer_id=ProducerId(2), client_version=2
    )
    tags = b"\x03\x00\x08" + struct.pack(">q", 1) + b"\x01\x08" + struct.pack(">q", 2)
    tags += b"\x02\x02\x00\x02"
    assert decode(KEY, KAFKA_V1 + tags) == value
    assert encode(value) == (KEY, KAFKA_V1 + tags)


def test_our_own_fields_are_tagged_far_from_those_of_kafka() -> None:
    value = changed(epoch_term=Term(5), last_producer_epoch=ProducerEpoch(6), is_doomed=True)
    # 10000, 10001 and 10002 as varints, each with the size of what follows.
    tags = b"\x03\x90\x4e\x04\x00\x00\x00\x05\x91\x4e\x02\x00\x06\x92\x4e\x01\x01"
    assert encode(value) == (KEY, KAFKA_V1 + tags)
    assert decode(KEY, KAFKA_V1 + tags) == value


def test_term_0_is_told_apart_from_a_value_without_a_term() -> None:
    assert decode(*encode(changed(epoch_term=Term(0)))) == changed(epoch_term=Term(0))
    foreign = decode(KEY, KAFKA_V0)
    assert foreign is not None
    assert foreign.epoch_term == NO_TERM


def test_tags_that_nobody_knows_are_stepped_over() -> None:
    tags = b"\x02\x07\x03abc\x2a\x00"
    assert decode(KEY, KAFKA_V1 + tags) == ONGOING


def test_an_empty_transaction_has_null_for_its_partitions_as_in_kafka() -> None:
    _, value = encode(changed(status=Status.EMPTY, partitions=frozenset()))
    assert value is not None
    assert value[17:18] == b"\x00"
    v0 = KAFKA_V0[:16] + b"\x00" + b"\xff\xff\xff\xff" + KAFKA_V0[-16:]
    assert decode(KEY, v0) == changed(status=Status.EMPTY, partitions=frozenset())


def test_a_forgotten_id_is_a_record_without_a_value() -> None:
    assert encode(dead(ID)) == (KEY, None)
    assert decode(KEY, None) == dead(ID)


def test_a_key_of_another_kind_is_not_ours() -> None:
    assert decode(b"\x00\x01\x00\x02tx", KAFKA_V0) is None


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x00\x02" + KAFKA_V1[2:] + b"\x00",
        KAFKA_V1,
        KAFKA_V1[:-1],
        KAFKA_V0[:40],
        KAFKA_V0[:16] + b"\x06" + KAFKA_V0[17:],
        KAFKA_V0[:16] + b"\xff" + KAFKA_V0[17:],
        KAFKA_V0[:17] + b"\x7f\xff\xff\xff" + KAFKA_V0[21:],
        KAFKA_V1 + b"\x01\x00\x04\x00\x00\x00\x01",
    ],
)
def test_damage_is_named(value: bytes) -> None:
    with pytest.raises(CorruptJournal):
        decode(KEY, value)


int64 = st.integers(-(2**63), 2**63 - 1)
producer_ids = st.integers(0, 2**63 - 1) | st.just(NO_PRODUCER_ID)
names = st.text(min_size=1, max_size=8)


@st.composite
def transactions(draw: st.DrawFn) -> Transaction:
    status = draw(st.sampled_from([status for status in Status if status is not Status.DEAD]))
    partitions = draw(st.frozensets(st.builds(TopicPartition, names, st.integers(0, 2**31 - 1))))
    return Transaction(
        transactional_id=TransactionalId(draw(names)),
        producer_id=ProducerId(draw(producer_ids)),
        producer_epoch=ProducerEpoch(draw(st.integers(-1, 2**15 - 1))),
        timeout_ms=draw(st.integers(0, 2**31 - 1)),
        status=status,
        last_producer_epoch=ProducerEpoch(draw(st.integers(-1, 2**15 - 1))),
        previous_producer_id=ProducerId(draw(producer_ids)),
        next_producer_id=ProducerId(draw(producer_ids)),
        partitions=frozenset() if status is Status.EMPTY else partitions,
        started_at_ms=draw(int64),
        last_update_ms=draw(int64),
        client_version=draw(st.integers(0, 3)),
        epoch_term=Term(draw(st.integers(-1, 2**31 - 1))),
        is_doomed=draw(st.booleans()),
    )


@given(transactions())
def test_every_field_survives_the_log(value: Transaction) -> None:
    assert decode(*encode(value)) == value


@given(transactions(), st.data())
def test_a_cut_value_is_refused_and_never_misread(value: Transaction, data: st.DataObject) -> None:
    key, encoded = encode(value)
    assert encoded is not None
    size = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(CorruptJournal):
        decode(key, encoded[:size])


@pytest.mark.parametrize(
    ("transactional_id", "hash_code"),
    [("", 0), ("a", 97), ("ab", 3_105), ("zzzzzz", 685_785_664), ("polygenelubricants", 0)],
)
def test_an_id_belongs_to_a_partition_by_the_hash_of_java(
    transactional_id: str, hash_code: int
) -> None:
    """Without its sign; the last one is the smallest integer, for which Kafka takes 0."""
    assert partition_for(transactional_id, 50) == hash_code % 50
