"""CreatePartitions (api key 37), versions 0-3.

v2  flexible encoding
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.errors import (
    InvalidReplicaAssignment,
    InvalidRequest,
    JournalFull,
    RequestError,
    StorageError,
)
from semel.lane.changes import add_partitions, check_more_partitions, topic_named
from semel.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def create_partitions(broker: "Broker", request: CreatePartitionsRequest, call: Call) -> Answer:
    results = [_add(broker, topic, request.validate_only) for topic in request.topics]
    return Answer(CreatePartitionsResponse(results=results), broker.lane.journal.end)


def _add(
    broker: "Broker", wanted: CreatePartitionsTopic, only_check: bool
) -> CreatePartitionsTopicResult:
    try:
        topic = topic_named(broker.lane, wanted.name)
        if topic.is_internal:
            raise InvalidRequest(f"the partitions of {topic.name!r} are fixed")
        check_more_partitions(topic, wanted.count)
        added_count = wanted.count - len(topic.partitions)
        if wanted.assignments is not None:
            assigned = [assignment.broker_ids for assignment in wanted.assignments]
            if assigned != [[broker.config.node_id]] * added_count:
                raise InvalidReplicaAssignment(
                    f"{added_count} partitions are added, each on broker {broker.config.node_id}"
                )
        if not only_check:
            add_partitions(broker.lane, topic, wanted.count)
    except RequestError as error:
        return CreatePartitionsTopicResult(wanted.name, error.code, str(error) or None)
    except JournalFull as error:
        return CreatePartitionsTopicResult(wanted.name, StorageError.code, str(error))
    return CreatePartitionsTopicResult(wanted.name)
