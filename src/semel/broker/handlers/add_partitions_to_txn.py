"""AddPartitionsToTxn (api key 24), versions 0-3.

v2  a fenced producer is told PRODUCER_FENCED; v3  flexible encoding

TV1 clients add partitions before they write to them, all of a request or none. Answered once
written: the commit makes it durable.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.broker.transactional import join, refuse_if_late
from semel.errors import InvalidTopic, OperationNotAttempted, RequestError, UnknownTopicOrPartition
from semel.transactions.commands import AddPartitions
from semel.types import INTERNAL_TOPICS, ProducerEpoch, ProducerId, TopicPartition
from semel.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def add_partitions_to_txn(
    broker: "Broker", request: AddPartitionsToTxnRequest, call: Call
) -> Answer:
    transactional_id = request.v3_and_below_transactional_id
    producer_id = ProducerId(request.v3_and_below_producer_id)
    epoch = ProducerEpoch(request.v3_and_below_producer_epoch)
    refuse_if_late(broker, call, transactional_id, producer_id, epoch)
    partitions = [
        TopicPartition(topic.name, index)
        for topic in request.v3_and_below_topics
        for index in topic.partitions
    ]
    codes = dict.fromkeys(partitions, 0)
    wrong = {partition: code for partition in partitions if (code := _wrong(broker, partition))}
    if wrong:
        codes = {
            partition: wrong.get(partition, OperationNotAttempted.code) for partition in partitions
        }
    else:
        try:
            join(
                broker,
                call,
                transactional_id,
                AddPartitions(producer_id, epoch, frozenset(partitions)),
            )
        except RequestError as error:
            codes = dict.fromkeys(partitions, error.code)
    is_taken = not any(codes.values())
    return Answer(_response(request, codes), durable=not is_taken)


def _wrong(broker: "Broker", partition: TopicPartition) -> int:
    if not broker.catalogue.has_partition(*partition):
        return UnknownTopicOrPartition.code
    return InvalidTopic.code if partition.topic in INTERNAL_TOPICS else 0


def _response(
    request: AddPartitionsToTxnRequest, codes: dict[TopicPartition, int]
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                topic.name,
                [
                    AddPartitionsToTxnPartitionResult(
                        index, codes[TopicPartition(topic.name, index)]
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
    )
