"""AddPartitionsToTxn (api key 24), versions 0-3.

v2  a fenced producer is told PRODUCER_FENCED; v3  flexible encoding

TV1 clients add partitions before they write to them, all of a request or none, whichever lanes they
lie in. Answered once written: the commit makes it durable.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.broker.transactional import is_epoch_durable, join, refuse_if_late
from semel.errors import InvalidTopic, OperationNotAttempted, RequestError, UnknownTopicOrPartition
from semel.lane.view import CatalogueView
from semel.transactions.commands import AddPartitions
from semel.types import ProducerEpoch, ProducerId, TopicPartition
from semel.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from semel.wire.rights import WRITE_ID, WRITE_TOPIC

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def add_partitions_to_txn(
    broker: "Broker", request: AddPartitionsToTxnRequest, call: Call
) -> Answer:
    transactional_id = request.v3_and_below_transactional_id
    producer_id = ProducerId(request.v3_and_below_producer_id)
    epoch = ProducerEpoch(request.v3_and_below_producer_epoch)
    partitions = [
        TopicPartition(topic.name, index)
        for topic in request.v3_and_below_topics
        for index in topic.partitions
    ]
    codes = dict.fromkeys(partitions, 0)
    try:
        call.require(WRITE_ID, transactional_id)
        refuse_if_late(broker, call, transactional_id, producer_id, epoch)
        lane = broker.coordinators.of_transactional_id(transactional_id)
        catalogue = broker.lanes.catalogue_for_coordinators
        wrong = {
            partition: refusal.code
            for partition in partitions
            if (refusal := _refusal(catalogue, partition, call)) is not None
        }
        if wrong:
            codes = {
                partition: wrong.get(partition, OperationNotAttempted.code)
                for partition in partitions
            }
        else:
            lanes = {catalogue.named(topic).lane_of(index) for topic, index in partitions}
            others = frozenset(lanes - {lane.number})
            command = AddPartitions(producer_id, epoch, frozenset(partitions), lanes=others)
            join(broker, call, transactional_id, command)
    except RequestError as error:
        codes = dict.fromkeys(partitions, error.code)
    is_early = not any(codes.values()) and is_epoch_durable(broker, transactional_id)
    return Answer(_response(request, codes), durable=not is_early)


def _refusal(
    catalogue: CatalogueView, partition: TopicPartition, call: Call
) -> RequestError | None:
    try:
        call.require(WRITE_TOPIC, partition.topic)
        topic = catalogue.named(partition.topic)
        if not catalogue.has_partition(*partition):
            raise UnknownTopicOrPartition(f"there is no partition {partition}")
        if topic.is_internal:
            raise InvalidTopic(f"clients may not write to {topic.name!r}")
    except RequestError as error:
        return error
    return None


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
