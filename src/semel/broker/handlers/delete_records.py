"""DeleteRecords (api key 21), versions 0-2.

v2  flexible encoding

Records below an offset are no longer shown; their bytes go when their journal segment does.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.errors import InvalidTopic, JournalFull, RequestError, StorageError
from semel.lane.changes import delete_records as delete_from
from semel.lane.changes import partition_of
from semel.types import INTERNAL_TOPICS
from semel.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def delete_records(broker: "Broker", request: DeleteRecordsRequest, call: Call) -> Answer:
    results = [
        DeleteRecordsTopicResult(
            topic.name, [_delete(broker, topic.name, wanted) for wanted in topic.partitions]
        )
        for topic in request.topics
    ]
    return Answer(DeleteRecordsResponse(topics=results), broker.lane.journal.end)


def _delete(
    broker: "Broker", topic: str, wanted: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    try:
        partition = partition_of(broker.lane, topic, wanted.partition_index)
        if topic in INTERNAL_TOPICS:
            raise InvalidTopic(f"topic {topic!r} belongs to the broker")
        delete_from(broker.lane, partition, wanted.offset)
    except RequestError as error:
        return DeleteRecordsPartitionResult(wanted.partition_index, -1, error.code)
    except JournalFull:
        return DeleteRecordsPartitionResult(wanted.partition_index, -1, StorageError.code)
    return DeleteRecordsPartitionResult(wanted.partition_index, partition.log_start_offset)
