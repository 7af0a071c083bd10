"""CreatePartitions (api key 37), versions 0-3.

v2  flexible encoding
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call, Handled
from semel.errors import (
    InvalidReplicaAssignment,
    InvalidRequest,
    JournalFull,
    RequestError,
    StorageError,
)
from semel.lane.topics import GrowTopic
from semel.spelling import noun
from semel.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from semel.wire.rights import ALTER_TOPIC

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def create_partitions(broker: "Broker", request: CreatePartitionsRequest, call: Call) -> Handled:
    results = [_add(broker, topic, request.validate_only, call) for topic in request.topics]
    return broker.topics.once_heard(Answer(CreatePartitionsResponse(results=results)))


def _add(
    broker: "Broker", wanted: CreatePartitionsTopic, only_check: bool, call: Call
) -> CreatePartitionsTopicResult:
    try:
        call.require(ALTER_TOPIC, wanted.name)
        topic = broker.lanes.controller.view.catalogue.named(wanted.name)
        if topic.is_internal:
            raise InvalidRequest(f"the partitions of {topic.name!r} are fixed")
        broker.lanes.controller.submit(GrowTopic(topic.name, wanted.count, only_check=True))
        added_count = wanted.count - topic.partition_count
        if wanted.assignments is not None:
            assigned = [assignment.broker_ids for assignment in wanted.assignments]
            added = range(topic.partition_count, wanted.count)
            node_ids = [broker.nodes.id_of_leader(topic.lane_of(index)) for index in added]
            if assigned != [[node_id] for node_id in node_ids]:
                raise InvalidReplicaAssignment(
                    f"{added_count} {noun(added_count, 'partition is', 'partitions are')} added, "
                    f"on brokers {node_ids}"
                )
        if not only_check:
            broker.topics.grow(topic.name, wanted.count)
    except RequestError as error:
        return CreatePartitionsTopicResult(wanted.name, error.code, str(error) or None)
    except JournalFull as error:
        return CreatePartitionsTopicResult(wanted.name, StorageError.code, str(error))
    if not only_check:
        broker.tell_change(call.caller, "partitions added", topic=wanted.name, count=added_count)
    return CreatePartitionsTopicResult(wanted.name)
