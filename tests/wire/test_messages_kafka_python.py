"""A selection of messages, against kafka-python's own protocol classes."""

import dataclasses
from random import Random
from typing import Any

import pytest
from kafka.protocol.admin import CreateTopicsResponse
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetFetchResponse,
)
from kafka.protocol.metadata import MetadataResponse
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest, ProduceResponse

from semel.wire.apis import BY_KEY
from semel.wire.framing import FrameCutter
from support.kio_values import kio_class, ours, random_value
from support.request_header import read_header

RESPONSES = [
    ProduceResponse,
    FetchResponse,
    MetadataResponse,
    JoinGroupResponse,
    OffsetFetchResponse,
    CreateTopicsResponse,
]

# kafka-python shows these as sets or leaves them out.
SHOWN_OTHERWISE = {
    "authorized_operations",
    "cluster_authorized_operations",
    "topic_authorized_operations",
}


def assert_same(kio_value: Any, theirs: Any) -> None:
    for field in dataclasses.fields(kio_value):
        if field.name in SHOWN_OTHERWISE:
            continue
        value = getattr(kio_value, field.name)
        name = field.name + ("_ms" if "time" in field.metadata.get("kafka_type", "") else "")
        seen = getattr(theirs, name)
        if isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            assert len(value) == len(seen)
            for inner, inner_seen in zip(value, seen, strict=True):
                assert_same(inner, inner_seen)
        elif isinstance(value, tuple):
            assert list(value) == list(seen)
        elif field.metadata.get("kafka_type") in ("string", "int8", "int16", "int32", "int64"):
            assert seen == value
        elif field.metadata.get("kafka_type") in ("bytes", "records") and value is not None:
            assert bytes(seen) == value


@pytest.mark.parametrize("theirs", RESPONSES, ids=lambda theirs: theirs.__name__)
def test_kafka_python_reads_our_responses(theirs: Any) -> None:
    api = BY_KEY[theirs.API_KEY]
    random = Random(theirs.__name__)
    for version in range(api.version_min, api.version_max + 1):
        for _ in range(5):
            value = random_value(kio_class(api.module, version, "response"), random)
            encoded = b"".join(api.encode_response(ours(value, api.messages), version))
            assert_same(value, theirs.decode(encoded, version=version))


def sent_by_kafka_python(request: Any, version: int) -> Any:
    request.API_VERSION = version
    request.with_header(correlation_id=77, client_id="them")
    sent = request.encode(version=version, header=True, framed=True)
    (frame,) = FrameCutter(10_000).feed(sent)
    header, position = read_header(frame)
    assert header[1:] == (version, 77, "them")
    message, end = header.api.decode_request(frame, position, version)
    assert end == len(frame)
    return message


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_produce_from_kafka_python(version: int) -> None:
    topic = ProduceRequest.TopicProduceData
    partition = topic.PartitionProduceData(index=3, records=b"records")
    request = ProduceRequest(
        transactional_id="tx",
        acks=-1,
        timeout_ms=1234,
        topic_data=[topic(name="töpic", partition_data=[partition])],
    )
    message = sent_by_kafka_python(request, version)
    assert (message.transactional_id, message.acks, message.timeout_ms) == ("tx", -1, 1234)
    assert message.topic_data[0].name == "töpic"
    assert message.topic_data[0].partition_data[0].index == 3
    assert message.topic_data[0].partition_data[0].records == b"records"


@pytest.mark.parametrize("version", [4, 7, 11, 12])
def test_fetch_from_kafka_python(version: int) -> None:
    topic = FetchRequest.FetchTopic
    partition = topic.FetchPartition(partition=3, fetch_offset=2**40, partition_max_bytes=99)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1000,
        isolation_level=1,
        topics=[topic(topic="t", partitions=[partition])],
        forgotten_topics_data=[],
        rack_id="",
    )
    message = sent_by_kafka_python(request, version)
    assert (message.max_wait_ms, message.max_bytes, message.isolation_level) == (500, 1000, 1)
    decoded = message.topics[0].partitions[0]
    assert (decoded.partition, decoded.fetch_offset, decoded.partition_max_bytes) == (3, 2**40, 99)


@pytest.mark.parametrize("version", [0, 5, 7])
def test_join_group_from_kafka_python(version: int) -> None:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\1")
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        member_id="m",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[protocol],
    )
    message = sent_by_kafka_python(request, version)
    assert (message.group_id, message.member_id, message.protocol_type) == ("g", "m", "consumer")
    assert message.session_timeout_ms == 10_000
    assert message.rebalance_timeout_ms == (20_000 if version else -1)
    assert (message.protocols[0].name, message.protocols[0].metadata) == ("range", b"\0\1")


@pytest.mark.parametrize("version", [2, 6, 8])
def test_offset_commit_from_kafka_python(version: int) -> None:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition(
        partition_index=1, committed_offset=5, committed_metadata="why"
    )
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=4,
        member_id="m",
        topics=[topic(name="t", partitions=[partition])],
    )
    message = sent_by_kafka_python(request, version)
    assert (message.generation_id_or_member_epoch, message.member_id) == (4, "m")
    decoded = message.topics[0].partitions[0]
    assert (decoded.partition_index, decoded.committed_offset) == (1, 5)
    assert decoded.committed_metadata == "why"


@pytest.mark.parametrize("version", [0, 2, 4])
def test_init_producer_id_from_kafka_python(version: int) -> None:
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    message = sent_by_kafka_python(request, version)
    assert (message.transactional_id, message.transaction_timeout_ms) == (None, 60_000)
    assert (message.producer_id, message.producer_epoch) == (-1, -1)
