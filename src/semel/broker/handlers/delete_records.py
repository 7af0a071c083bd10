"""DeleteRecords (api key 21), versions 0-2.

v2  flexible encoding

Records below an offset are no longer shown; their room comes back with a round of retention. A
topic that is compacted and nothing else refuses: tombstones delete from it.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.broker.topic_config import keeping_of
from semel.errors import InvalidTopic, JournalFull, PolicyViolation, RequestError, StorageError
from semel.lane.topics import DeleteRecords
from semel.types import INTERNAL_TOPICS, TopicPartition
from semel.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from semel.wire.rights import DELETE_TOPIC

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def delete_records(broker: "Broker", request: DeleteRecordsRequest, call: Call) -> Answer:
    results = [
        DeleteRecordsTopicResult(
            topic.name, [_delete(broker, topic.name, wanted, call) for wanted in topic.partitions]
        )
        for topic in request.topics
    ]
    return Answer(DeleteRecordsResponse(topics=results))


def _delete(
    broker: "Broker", topic: str, wanted: DeleteRecordsPartition, call: Call
) -> DeleteRecordsPartitionResult:
    try:
        call.require(DELETE_TOPIC, topic)
        partition = TopicPartition(topic, wanted.partition_index)
        lane, _ = broker.lanes.of(partition)
        if topic in INTERNAL_TOPICS:
            raise InvalidTopic(f"topic {topic!r} belongs to the broker")
        keeping = keeping_of(broker.lanes.catalogue.named(topic).config, broker.config)
        if keeping.is_compacted and not keeping.is_deleted:
            raise PolicyViolation(f"topic {topic!r} keeps the newest record of each key")
        log_start_offset = lane.submit(DeleteRecords(partition, wanted.offset))
        lane.settling.deleted_by_hand()
    except RequestError as error:
        return DeleteRecordsPartitionResult(wanted.partition_index, -1, error.code)
    except JournalFull:
        return DeleteRecordsPartitionResult(wanted.partition_index, -1, StorageError.code)
    return DeleteRecordsPartitionResult(wanted.partition_index, log_start_offset)
