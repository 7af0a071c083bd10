"""DescribeLogDirs (api key 35), versions 1-4.

v2  flexible encoding; v4  size of the disk

All partitions share the journal; a partition's size is that of its own batches in it.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.types import TopicPartition
from semel.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def describe_log_dirs(broker: "Broker", request: DescribeLogDirsRequest, call: Call) -> Answer:
    catalogue = broker.catalogue
    if request.topics is None:
        wanted = {topic.name: list(range(topic.partition_count)) for topic in catalogue}
    else:
        wanted = {
            topic.topic: [
                index for index in topic.partitions if catalogue.has_partition(topic.topic, index)
            ]
            for topic in request.topics
            if topic.topic in catalogue
        }
    topics = [
        DescribeLogDirsTopic(
            name,
            [
                DescribeLogDirsPartition(index, _size(broker, name, index), 0, False)
                for index in indexes
            ],
        )
        for name, indexes in wanted.items()
    ]
    total, usable = broker.disk_bytes()
    result = DescribeLogDirsResult(0, broker.data_folder, topics, total, usable)
    return Answer(DescribeLogDirsResponse(results=[result]))


def _size(broker: "Broker", name: str, index: int) -> int:
    partition = TopicPartition(name, index)
    lane = broker.lane_of(partition)
    return lane.log.bytes_of(lane.view.partition(name, index))
