"""A refusal leaves only when what it was decided on can no longer be lost."""

from random import Random
from typing import Any

import pytest

from semel.broker.answer import Answer, Call
from semel.broker.broker import Broker
from semel.broker.dispatch import route
from semel.errors import UnknownTopicOrPartition
from semel.journal.file.memory import MemoryDevice
from semel.records.records import Record, encode_batch
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from semel.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from semel.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from support.handled import Peer, call, opened, started
from support.inside import journal_of
from support.raw_client import BY_MODULE, fetch_request, produce_request
from support.seeded_loop import run

ASKED: list[tuple[str, int, Any]] = [
    ("produce", 9, produce_request("t", encode_batch([Record(b"k", b"v", 0)]), acks=1)),
    ("fetch", 11, fetch_request("t", 0)),
    (
        "list_offsets",
        7,
        ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [ListOffsetsPartition()])]),
    ),
    (
        "offset_for_leader_epoch",
        4,
        OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic("t", [OffsetForLeaderPartition()])]),
    ),
]


def ask(broker: Broker, module: str, version: int, request: Any) -> Any:
    """What the handler gives, whether or not it may leave already."""
    known = route(BY_MODULE[module].key)
    return known.handler(broker, request, Call(known.api, version, 1, None, Peer()))


def waits_for(answer: Answer, broker: Broker) -> list[int]:
    marks = broker.lanes.marks() if answer.marks is None else answer.marks
    return [mark.position for mark in marks]


@pytest.mark.parametrize(("module", "version", "request_"), ASKED, ids=[each[0] for each in ASKED])
def test_who_misses_a_topic_hears_of_it_when_its_end_is_durable(
    module: str, version: int, request_: Any
) -> None:
    rng = Random(1)

    async def main() -> None:
        broker = opened(MemoryDevice(rng), rng)

        async with started(broker):
            await call(broker, "create_topics", 7, CreateTopicsRequest([CreatableTopic("t", 1, 1)]))
            ask(broker, "delete_topics", 6, DeleteTopicsRequest([DeleteTopicState("t")]))
            answer = ask(broker, module, version, request_)
            if not isinstance(answer, Answer):
                answer = await answer
            assert answer.durable
            assert waits_for(answer, broker) == [journal_of(broker).end]
            assert journal_of(broker).end > journal_of(broker).durable

    run(rng, main())


def test_a_transaction_that_misses_a_topic_hears_of_it_when_its_end_is_durable() -> None:
    rng = Random(1)

    async def main() -> None:
        broker = opened(MemoryDevice(rng), rng)
        async with started(broker):
            await call(broker, "create_topics", 7, CreateTopicsRequest([CreatableTopic("t", 1, 1)]))
            starting = InitProducerIdRequest("id", 60_000)
            given = await call(broker, "init_producer_id", 5, starting)
            ask(broker, "delete_topics", 6, DeleteTopicsRequest([DeleteTopicState("t")]))
            partitions = [TxnOffsetCommitRequestPartition(0, 1)]
            topics = [TxnOffsetCommitRequestTopic("t", partitions)]
            request = TxnOffsetCommitRequest(
                "id", "g", given.producer_id, given.producer_epoch, topics=topics
            )
            answer = ask(broker, "txn_offset_commit", 5, request)
            (topic,) = answer.response.topics
            codes = [partition.error_code for partition in topic.partitions]
            assert codes == [UnknownTopicOrPartition.code]
            assert answer.durable
            assert waits_for(answer, broker) == [journal_of(broker).end]
            assert journal_of(broker).end > journal_of(broker).durable

    run(rng, main())


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_retry_waits_as_its_original_does(acks: int) -> None:
    """Or its client would hear of a record that a power loss may still take."""
    rng = Random(1)
    record = [Record(b"k", b"v", 0)]
    batch = encode_batch(record, producer_id=0, producer_epoch=0, base_sequence=0)

    async def main() -> None:
        broker = opened(MemoryDevice(rng), rng)
        async with started(broker):
            await call(broker, "create_topics", 7, CreateTopicsRequest([CreatableTopic("t", 1, 1)]))
            for _ in range(2):
                answer = ask(broker, "produce", 9, produce_request("t", batch, acks=acks))
                (told,) = answer.response.responses[0].partition_responses
                assert (told.error_code, told.base_offset) == (0, 0)
                assert answer.durable == (acks == -1)
                assert waits_for(answer, broker) == [journal_of(broker).end]
                assert journal_of(broker).end > journal_of(broker).durable

    run(rng, main())


def deletion_before(offset: int) -> DeleteRecordsRequest:
    topics = [DeleteRecordsTopic("t", [DeleteRecordsPartition(0, offset)])]
    return DeleteRecordsRequest(topics, 1_000)


@pytest.mark.parametrize("timestamp", [-2, 0])
def test_where_a_log_begins_is_told_when_the_deletion_before_it_is_durable(timestamp: int) -> None:
    """By a fetch and by ListOffsets, also where a search lies between question and answer."""
    rng = Random(1)
    batch = encode_batch([Record(b"k", b"v", 1)])
    partitions = [
        ListOffsetsPartition(0, timestamp=0),
        ListOffsetsPartition(0, timestamp=timestamp),
    ]
    listing = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", partitions)])

    async def main() -> None:
        broker = opened(MemoryDevice(rng), rng)
        async with started(broker):
            await call(broker, "create_topics", 7, CreateTopicsRequest([CreatableTopic("t", 1, 1)]))
            for _ in range(3):
                await call(broker, "produce", 9, produce_request("t", batch))
            searching = ask(broker, "list_offsets", 7, listing)
            ask(broker, "delete_records", 2, deletion_before(2))
            end = journal_of(broker).end
            assert end > journal_of(broker).durable
            answers = [ask(broker, "fetch", 11, fetch_request("t", 2)), await searching]
            for answer in answers:
                assert answer.durable
                assert waits_for(answer, broker) == [end]
            assert answers[0].response.responses[0].partitions[0].log_start_offset == 2

    run(rng, main())
