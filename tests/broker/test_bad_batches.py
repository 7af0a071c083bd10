"""Batches that lie: each is refused with Kafka's error, and nothing is stored."""

import struct
from collections.abc import Iterator

import pytest

from semel.records.batch import seal
from semel.records.records import Record, encode_batch
from semel.testing import Broker
from support.raw_client import RawClient, metric, produce, produce_values, resident_bytes

CORRUPT, TOO_LARGE, INVALID_TOPIC, BAD_ACKS = 2, 10, 17, 21
UNKNOWN_TOPIC, OUT_OF_ORDER, STALE_EPOCH = 3, 45, 47
INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION, INVALID_RECORD = 32, 76, 87

# Where the fields of a batch header stand.
BASE_OFFSET, LENGTH, MAGIC, CHECKSUM, ATTRIBUTES, LAST_DELTA = 0, 8, 16, 17, 21, 23
MAX_TIMESTAMP, PRODUCER_ID, COUNT = 35, 43, 57

GZIP, ZSTD = 1, 4


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker) as client:
        yield client


@pytest.fixture
def unchanged(broker: Broker, client: RawClient) -> Iterator[None]:
    before = metric(broker, "semel_journal_frames"), client.end_offset("t")
    yield
    assert (metric(broker, "semel_journal_frames"), client.end_offset("t")) == before


def valid() -> bytearray:
    records = [Record(b"key", b"value %d" % number, 1_000) for number in range(3)]
    return bytearray(encode_batch(records))


def with_field(at: int, kind: str, value: int, *, sealed: bool = True) -> bytes:
    batch = valid()
    struct.pack_into(f">{kind}", batch, at, value)
    if sealed:
        seal(batch)
    return bytes(batch)


LIES = {
    "nothing": (None, INVALID_RECORD),
    "no bytes": (b"", INVALID_RECORD),
    "half a header": (bytes(valid())[:30], CORRUPT),
    "a cut batch": (bytes(valid())[:-1], CORRUPT),
    "bytes behind it": (bytes(valid()) + b"\0", CORRUPT),
    "two batches": (bytes(valid()) * 2, INVALID_RECORD),
    "magic 0": (with_field(MAGIC, "b", 0), INVALID_RECORD),
    "magic 1": (with_field(MAGIC, "b", 1), INVALID_RECORD),
    "magic 3": (with_field(MAGIC, "b", 3), INVALID_RECORD),
    "a wrong checksum": (with_field(CHECKSUM, "I", 1, sealed=False), CORRUPT),
    "a length too long": (with_field(LENGTH, "i", 1 << 20, sealed=False), CORRUPT),
    "a negative length": (with_field(LENGTH, "i", -1, sealed=False), CORRUPT),
    "more records than it has": (with_field(COUNT, "i", 4), INVALID_RECORD),
    "no records": (with_field(COUNT, "i", 0), INVALID_RECORD),
    "a negative count": (with_field(COUNT, "i", -1), INVALID_RECORD),
    "offsets that leave gaps": (with_field(LAST_DELTA, "i", 100), INVALID_RECORD),
    "offsets that go back": (with_field(LAST_DELTA, "i", -1), INVALID_RECORD),
    "a first offset of its own": (with_field(BASE_OFFSET, "q", 7), INVALID_RECORD),
    "a control batch": (with_field(ATTRIBUTES, "h", 0x20), INVALID_RECORD),
    "a time of the log": (with_field(ATTRIBUTES, "h", 0x08), INVALID_TIMESTAMP),
    "a transaction of nobody": (with_field(ATTRIBUTES, "h", 0x10), INVALID_RECORD),
    "an unknown compression": (with_field(ATTRIBUTES, "h", 5), UNSUPPORTED_COMPRESSION),
    "a negative time": (with_field(MAX_TIMESTAMP, "q", -2), INVALID_TIMESTAMP),
    "a producer without epoch": (with_field(PRODUCER_ID, "q", 5), INVALID_RECORD),
    "a negative producer": (with_field(PRODUCER_ID, "q", -2), INVALID_RECORD),
}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(("batch", "code"), LIES.values(), ids=LIES.keys())
def test_a_batch_that_lies_is_refused(client: RawClient, batch: bytes | None, code: int) -> None:
    answer = produce(client, "t", batch)
    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert answer.error_message


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("topic", "partition", "acks", "code"),
    [
        ("none", 0, -1, UNKNOWN_TOPIC),
        ("t", 1, -1, UNKNOWN_TOPIC),
        ("t", -1, -1, UNKNOWN_TOPIC),
        ("t", 0, 2, BAD_ACKS),
        ("t", 0, -2, BAD_ACKS),
    ],
)
def test_a_batch_for_a_wrong_place_is_refused(
    client: RawClient, topic: str, partition: int, acks: int, code: int
) -> None:
    answer = produce(client, topic, bytes(valid()), partition=partition, acks=acks)
    assert answer.error_code == code


@pytest.mark.usefixtures("unchanged")
def test_a_batch_over_the_limit_is_refused(client: RawClient) -> None:
    records = [Record(None, bytes(1_048_588))]
    assert produce(client, "t", encode_batch(records)).error_code == TOO_LARGE


def test_clients_may_not_write_to_internal_topics(broker: Broker, client: RawClient) -> None:
    client.create_group_topic()
    before = metric(broker, "semel_journal_frames")
    answer = produce(client, "__consumer_offsets", bytes(valid()))
    assert answer.error_code == INVALID_TOPIC
    assert metric(broker, "semel_journal_frames") == before


@pytest.mark.usefixtures("unchanged")
def test_without_acks_a_refusal_closes_the_connection(broker: Broker) -> None:
    with RawClient(broker) as other:
        other.send_produce_without_acks("t", b"no batch")
        assert other.is_closed_by_broker


def test_a_refused_batch_does_not_harm_its_neighbours(client: RawClient) -> None:
    client.create_topic("two", 2)
    codes = client.produce_to_partitions("two", [bytes(valid()), b"no batch"])
    assert codes == [0, CORRUPT]
    assert (client.end_offset("two", 0), client.end_offset("two", 1)) == (3, 0)


def test_sequences_are_held_to_their_order(client: RawClient) -> None:
    client.create_topic("sequences")

    def send(epoch: int, sequence: int, value: bytes = b"x") -> tuple[int, int]:
        batch = encode_batch(
            [Record(None, value)], producer_id=9, producer_epoch=epoch, base_sequence=sequence
        )
        answer = produce(client, "sequences", batch)
        return answer.error_code, answer.base_offset

    assert send(1, 0) == (0, 0)
    assert send(1, 1) == (0, 1)
    assert send(1, 0) == (0, 0), "a retry keeps its offset"
    assert send(1, 0, b"other bytes") == (OUT_OF_ORDER, -1)
    assert send(1, 5) == (OUT_OF_ORDER, -1)
    assert send(0, 2) == (STALE_EPOCH, -1)
    assert send(2, 2) == (OUT_OF_ORDER, -1)
    assert send(2, 0) == (0, 2)
    assert client.end_offset("sequences") == 3


def compressed_nonsense(record_count: int) -> bytes:
    """Admitted by its header, which is sound; its records cannot be unpacked."""
    batch = valid()
    struct.pack_into(">h", batch, ATTRIBUTES, GZIP)
    struct.pack_into(">i", batch, COUNT, record_count)
    struct.pack_into(">i", batch, LAST_DELTA, record_count - 1)
    seal(batch)
    return bytes(batch)


def test_records_that_cannot_be_unpacked_do_not_hide_those_behind_them(
    client: RawClient,
) -> None:
    client.create_topic("nonsense")
    assert produce(client, "nonsense", compressed_nonsense(3)).error_code == 0
    assert produce_values(client, "nonsense", [b"good"]) == 3
    assert client.offset_at("nonsense", 500) == 3


def test_a_batch_that_claims_millions_of_records_is_not_opened_to_find_a_time(
    broker: Broker, client: RawClient
) -> None:
    client.create_topic("claims")
    zeros = encode_batch([Record(None, bytes(900_000), 1_000)], compression=ZSTD)
    batch = bytearray(zeros)
    struct.pack_into(">i", batch, LAST_DELTA, 5_000_000 - 1)
    struct.pack_into(">i", batch, COUNT, 5_000_000)
    seal(batch)
    before = resident_bytes(broker)
    assert produce(client, "claims", bytes(batch)).error_code == 0
    assert client.offset_at("claims", 500) == 0
    assert resident_bytes(broker) < before + 20 * 2**20
