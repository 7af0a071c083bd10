"""Topics by their ids (KIP-516): one that was deleted is not taken for another of its name."""

from pathlib import Path
from typing import Any

import pytest

from semel.errors import NONE, FencedLeaderEpoch, GroupIdNotFound, IllegalGeneration, UnknownTopicId
from semel.records.batch import split
from semel.records.records import Record, decode_batch, encode_batch
from semel.testing import Broker
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.wire.messages.end_txn import EndTxnRequest
from semel.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
)
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from support.power_loss import Disk
from support.raw_client import RawClient, encoded, fetched_values, produce_values, request_frame
from support.topics import name_for

NEWEST_FETCH = 18
NOBODY = b"\7" * 16


@pytest.fixture
def topic(semel_broker: Broker, request: pytest.FixtureRequest) -> str:
    name = name_for(request)[:100]
    with RawClient(semel_broker) as client:
        client.create_topic(name)
    return name


def topic_id_of(client: RawClient, name: str) -> bytes:
    request = MetadataRequest([MetadataRequestTopic(name=name)])
    (found,) = client.call("metadata", 12, request).topics
    assert found.error_code == NONE
    return bytes(found.topic_id)


def make_anew(client: RawClient, name: str) -> None:
    request = DeleteTopicsRequest([DeleteTopicState(name)])
    (deleted,) = client.call("delete_topics", 6, request).responses
    assert deleted.error_code == NONE
    client.create_topic(name)


def fetch_request(
    topic_id: bytes, offset: int = 0, *, leader_epoch: int = -1, max_wait_ms: int = 0
) -> FetchRequest:
    wanted = FetchPartition(0, leader_epoch, offset, partition_max_bytes=2**20)
    topics = [FetchTopic(topic_id=topic_id, partitions=[wanted])]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=2**20, topics=topics)


def fetch(client: RawClient, request: FetchRequest, version: int = NEWEST_FETCH) -> Any:
    response = client.call("fetch", version, request)
    assert (response.error_code, response.session_id) == (NONE, 0)
    ((answer,),) = (found.partitions for found in response.responses)
    return answer


def values(answer: Any) -> list[bytes | None]:
    batches = split(bytes(answer.records or b""))
    return [record.value for _, batch in batches for record in decode_batch(batch)]


def produce_request(topic_ids: list[bytes], acks: int = -1, **options: Any) -> ProduceRequest:
    batch = encode_batch([Record(None, b"by id", 1_000)], **options)
    data = [PartitionProduceData(0, batch)]
    topics = [TopicProduceData(topic_id=topic_id, partition_data=data) for topic_id in topic_ids]
    return ProduceRequest(None, acks, 30_000, topics)


def codes(response: Any) -> dict[bytes, list[int]]:
    return {
        topic.topic_id: [answer.error_code for answer in topic.partition_responses]
        for topic in response.responses
    }


@pytest.mark.parametrize("version", range(13, NEWEST_FETCH + 1))
def test_a_topic_is_read_by_its_id(semel_broker: Broker, topic: str, version: int) -> None:
    with RawClient(semel_broker) as client:
        produce_values(client, topic, [b"1", b"2"])
        topic_id = topic_id_of(client, topic)
        response = client.call("fetch", version, fetch_request(topic_id))
        (found,) = response.responses
        assert found.topic_id == topic_id
        assert values(found.partitions[0]) == [b"1", b"2"]


def test_an_id_that_nobody_has_is_refused_and_the_others_are_read(
    semel_broker: Broker, topic: str
) -> None:
    with RawClient(semel_broker) as client:
        produce_values(client, topic, [b"1"])
        topic_id = topic_id_of(client, topic)
        request = fetch_request(NOBODY)
        request.topics += fetch_request(topic_id).topics + fetch_request(bytes(16)).topics
        responses = client.call("fetch", NEWEST_FETCH, request).responses
        assert [found.topic_id for found in responses] == [NOBODY, topic_id, bytes(16)]
        refused, answered, zero = (found.partitions[0] for found in responses)
        assert refused.error_code == zero.error_code == UnknownTopicId.code
        assert refused.high_watermark == -1
        assert values(answered) == [b"1"]


def test_who_knows_the_old_topic_reads_nothing_of_the_new_one(
    semel_broker: Broker, topic: str
) -> None:
    with RawClient(semel_broker) as client:
        produce_values(client, topic, [b"old 0", b"old 1"])
        old_id = topic_id_of(client, topic)
        make_anew(client, topic)
        produce_values(client, topic, [b"new 0", b"new 1", b"new 2"])
        answer = fetch(client, fetch_request(old_id, 2))
        assert (answer.error_code, values(answer)) == (UnknownTopicId.code, [])
        new_id = topic_id_of(client, topic)
        assert values(fetch(client, fetch_request(new_id))) == [b"new 0", b"new 1", b"new 2"]


def test_a_reader_that_waits_is_told_when_its_topic_is_another_one(
    semel_broker: Broker, topic: str
) -> None:
    with RawClient(semel_broker) as reader, RawClient(semel_broker) as client:
        old_id = topic_id_of(client, topic)
        request = fetch_request(old_id, max_wait_ms=60_000)
        reader.send(request_frame("fetch", 13, encoded("fetch", 13, request)))
        make_anew(client, topic)
        produce_values(client, topic, [b"new"])
        reply = reader.receive()
        assert reply is not None
        assert UnknownTopicId.code.to_bytes(2, "big") in reply
        assert b"new" not in reply


@pytest.mark.parametrize(("version", "is_told"), [(15, False), (16, True), (18, True)])
def test_who_knows_an_older_leadership_is_told_of_the_present_one(
    tmp_path: Path, version: int, is_told: bool
) -> None:
    disk = Disk(tmp_path / "data")
    with Broker(data=disk.folder) as broker:
        with RawClient(broker) as client:
            client.create_topic("t")
            topic_id = topic_id_of(client, "t")
            request = fetch_request(topic_id, leader_epoch=0)
            assert fetch(client, request, version).current_leader is None
        disk.lose_power(broker, everything_unsynced=False)
        with RawClient(broker) as client:
            response = client.call("fetch", version, request)
            (answer,) = response.responses[0].partitions
            assert answer.error_code == FencedLeaderEpoch.code
            if is_told:
                assert answer.current_leader == LeaderIdAndEpoch(1, 1)
                expected = [NodeEndpoint(1, "127.0.0.1", broker.port)]
                assert response.node_endpoints == expected
            else:
                assert answer.current_leader is None


def test_a_topic_is_written_to_by_its_id(semel_broker: Broker, topic: str) -> None:
    with RawClient(semel_broker) as client:
        topic_id = topic_id_of(client, topic)
        response = client.call("produce", 13, produce_request([NOBODY, topic_id]))
        assert codes(response) == {NOBODY: [UnknownTopicId.code], topic_id: [NONE]}
        assert fetched_values(client, topic) == [b"by id"]


def test_what_was_meant_for_the_old_topic_is_not_in_the_new_one(
    semel_broker: Broker, topic: str
) -> None:
    with RawClient(semel_broker) as client:
        old_id = topic_id_of(client, topic)
        make_anew(client, topic)
        sent = produce_request([old_id], producer_id=5, producer_epoch=0, base_sequence=3)
        assert codes(client.call("produce", 13, sent)) == {old_id: [UnknownTopicId.code]}
        assert client.end_offset(topic) == 0


def test_without_acks_an_unknown_id_closes_the_connection(semel_broker: Broker) -> None:
    with RawClient(semel_broker) as client:
        request = produce_request([NOBODY], acks=0)
        client.send(request_frame("produce", 13, encoded("produce", 13, request)))
        assert client.is_closed_by_broker


def offsets_of(
    client: RawClient, group: str, topic_ids: list[bytes], generation_id: int = -1
) -> TxnOffsetCommitRequest:
    """Offset 5 of each in a transaction that is new."""
    given = client.call("init_producer_id", 5, InitProducerIdRequest(group, 60_000))
    assert given.error_code == NONE
    partitions = [TxnOffsetCommitRequestPartition(0, 5)]
    topics = [
        TxnOffsetCommitRequestTopic(topic_id=topic_id, partitions=partitions)
        for topic_id in topic_ids
    ]
    producer = given.producer_id, given.producer_epoch
    return TxnOffsetCommitRequest(group, group, *producer, generation_id, topics=topics)


def offset_codes(client: RawClient, request: TxnOffsetCommitRequest) -> dict[bytes, int]:
    answer = client.call("txn_offset_commit", 6, request)
    return {topic.topic_id: topic.partitions[0].error_code for topic in answer.topics}


def committed_offset(client: RawClient, group: str, topic: str) -> int:
    request = OffsetFetchRequest(group_id=group, topics=[OffsetFetchRequestTopic(topic, [0])])
    answer = client.call("offset_fetch", 7, request)
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


def test_offsets_are_committed_in_a_transaction_for_the_topics_whose_ids_are_known(
    semel_broker: Broker, topic: str
) -> None:
    with RawClient(semel_broker) as client:
        topic_id = topic_id_of(client, topic)
        request = offsets_of(client, topic, [NOBODY, topic_id])
        assert offset_codes(client, request) == {NOBODY: UnknownTopicId.code, topic_id: NONE}
        ending = EndTxnRequest(topic, request.producer_id, request.producer_epoch, True)
        assert client.call("end_txn", 5, ending).error_code == NONE
        assert committed_offset(client, topic, topic) == 5


def test_offsets_of_the_old_topic_are_not_committed_in_a_transaction_for_the_new_one(
    semel_broker: Broker, topic: str
) -> None:
    with RawClient(semel_broker) as client:
        old_id = topic_id_of(client, topic)
        make_anew(client, topic)
        request = offsets_of(client, topic, [old_id])
        assert offset_codes(client, request) == {old_id: UnknownTopicId.code}
        assert committed_offset(client, topic, topic) == -1


def test_a_member_of_no_group_is_told_so_in_a_transaction(semel_broker: Broker, topic: str) -> None:
    with RawClient(semel_broker) as client:
        topic_id = topic_id_of(client, topic)
        request = offsets_of(client, topic, [topic_id], generation_id=3)
        assert offset_codes(client, request) == {topic_id: GroupIdNotFound.code}
        request.topics[0].name = topic
        answer = client.call("txn_offset_commit", 5, request)
        assert answer.topics[0].partitions[0].error_code == IllegalGeneration.code
