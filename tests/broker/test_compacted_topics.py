"""What a compacted topic refuses: records without a key, and the deletion of its records."""

import struct
from collections.abc import Iterator

import pytest

from semel.records.batch import HEADER_SIZE, seal
from semel.records.compression import Compression
from semel.records.records import Record, encode_batch
from semel.testing import Broker
from semel.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from semel.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from support.raw_client import RawClient, produce, produce_values
from support.transactional_wire import WireProducer, fetch

TOO_LARGE, POLICY_VIOLATION, INVALID_RECORD = 10, 44, 87
TOPIC_RESOURCE, SET = 2, 0
COUNT = 57
"""Where a batch counts its records."""

KEYED = [Record(b"key %d" % number, b"value", 1_000) for number in range(3)]
KEYLESS = [*KEYED, Record(None, b"value", 1_000)]
COMPACTED = ("compact", "compact,delete", "delete, compact")


@pytest.fixture(scope="module")
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker) as client:
        for policy in COMPACTED:
            client.create_topic(_topic(policy), cleanup_policy=policy)
        yield client


def _topic(policy: str) -> str:
    return "topic-" + policy.replace(",", "-").replace(" ", "")


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("policy", COMPACTED)
def test_a_batch_with_a_record_that_has_no_key_is_refused_whole(
    client: RawClient, policy: str, compression: Compression
) -> None:
    topic = _topic(policy)
    before = client.end_offset(topic)
    refusal = produce(client, topic, encode_batch(KEYLESS, compression=compression))
    assert (refusal.error_code, refusal.base_offset) == (INVALID_RECORD, -1)
    assert "needs a key" in refusal.error_message
    answer = produce(client, topic, encode_batch(KEYED, compression=compression))
    assert (answer.error_code, answer.base_offset) == (0, before)
    assert client.end_offset(topic) == before + len(KEYED)


def test_an_empty_key_is_a_key(client: RawClient) -> None:
    assert produce(client, "topic-compact", encode_batch([Record(b"", None, 1)])).error_code == 0


def test_a_transaction_is_held_to_it_as_well(broker: Broker, client: RawClient) -> None:
    client.create_topic("of-keys", cleanup_policy="compact")
    with WireProducer(broker, "of-keys") as producer:
        producer.init()
        assert producer.produce("of-keys", b"no key").error_code == INVALID_RECORD
        producer.abort()
    assert fetch(client, "of-keys").values == []


@pytest.mark.parametrize("count", [2, 4])
def test_records_that_cannot_be_told_apart_are_refused_for_good(
    client: RawClient, count: int
) -> None:
    """With a code upon which no producer tries again."""
    batch = bytearray(encode_batch(KEYED, compression=Compression.ZSTD))
    struct.pack_into(">i", batch, 23, count - 1)
    struct.pack_into(">i", batch, COUNT, count)
    seal(batch)
    refusal = produce(client, "topic-compact", bytes(batch))
    assert refusal.error_code == INVALID_RECORD
    assert "cannot be read" in refusal.error_message


def test_what_does_not_unpack_is_refused_for_good(client: RawClient) -> None:
    batch = bytearray(encode_batch(KEYED, compression=Compression.GZIP))
    batch[HEADER_SIZE] ^= 0xFF
    seal(batch)
    assert produce(client, "topic-compact", bytes(batch)).error_code == INVALID_RECORD


@pytest.mark.parametrize(
    "records",
    [
        [Record(b"key", bytes(17 * 2**20), 1)],
        [Record(b"", b"", 1)] * 200_001,
    ],
    ids=["bytes", "records"],
)
def test_a_few_bytes_that_unpack_to_a_great_many_are_too_large(
    client: RawClient, records: list[Record]
) -> None:
    """So that nobody waits until they are looked through, and producers split them."""
    batch = encode_batch(records, compression=Compression.ZSTD)
    assert len(batch) < 2**20
    assert produce(client, "topic-compact", batch).error_code == TOO_LARGE


def test_the_policy_of_the_moment_counts(client: RawClient) -> None:
    client.create_topic("changing")
    produce_values(client, "changing", [b"without key"])
    assert _set_policy(client, "changing", "compact") == 0
    assert produce(client, "changing", encode_batch(KEYLESS)).error_code == INVALID_RECORD
    assert _set_policy(client, "changing", "delete") == 0
    assert produce_values(client, "changing", [b"without key"]) == 1


def test_the_records_of_a_topic_that_is_only_compacted_cannot_be_deleted(
    client: RawClient,
) -> None:
    for policy, expected in (("compact", POLICY_VIOLATION), ("compact,delete", 0)):
        topic = _topic(policy)
        produce(client, topic, encode_batch(KEYED))
        wanted = DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, 1)])
        (answer,) = client.call("delete_records", 2, DeleteRecordsRequest([wanted])).topics
        assert [each.error_code for each in answer.partitions] == [expected]


def _set_policy(client: RawClient, topic: str, policy: str) -> int:
    change = AlterConfigsResource(
        TOPIC_RESOURCE, topic, [AlterableConfig("cleanup.policy", SET, policy)]
    )
    request = IncrementalAlterConfigsRequest([change], False)
    (answer,) = client.call("incremental_alter_configs", 1, request).responses
    return int(answer.error_code)
