"""DescribeLogDirs (api key 35), versions 1-5.

v2  flexible encoding; v4  size of the disk; v5  whether it takes no new partitions,
which it always does (KIP-1066)

All partitions share the journal; a partition's size is that of its batches that are shown.
"""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from semel.broker.answer import Answer, Call
from semel.errors import ClusterAuthorizationFailed, CorruptJournal, RequestError
from semel.lane.view import CatalogueView
from semel.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from semel.wire.rights import DESCRIBE_CLUSTER

if TYPE_CHECKING:
    from semel.broker.broker import Broker

PARTITIONS_AT_ONCE: Final = 64
"""Looked at before others have their turn."""


async def describe_log_dirs(
    broker: "Broker", request: DescribeLogDirsRequest, call: Call
) -> Answer:
    if not call.may(DESCRIBE_CLUSTER):
        return _refusal()
    topics = []
    count = 0
    # What is led elsewhere lies elsewhere.
    wanted = _wanted(broker.lanes.catalogue, request) if broker.lanes.knows_topics else ()
    for name, indexes in wanted:
        here = []
        for index in indexes:
            count += 1
            if count % PARTITIONS_AT_ONCE == 0:
                # What is in memory is found without waiting for anything.
                await asyncio.sleep(0)
            described = await _described(broker, name, index)
            if described is not None:
                here.append(described)
        if here:
            topics.append(DescribeLogDirsTopic(name, here))
    # It may have been taken from the client meanwhile.
    if not call.may(DESCRIBE_CLUSTER):
        return _refusal()
    total, usable = broker.disk_bytes()
    result = DescribeLogDirsResult(0, broker.data_folder, topics, total, usable)
    return Answer(DescribeLogDirsResponse(results=[result]))


def _refusal() -> Answer:
    return Answer(DescribeLogDirsResponse(error_code=ClusterAuthorizationFailed.code))


def _wanted(
    catalogue: CatalogueView, request: DescribeLogDirsRequest
) -> Iterable[tuple[str, Iterable[int]]]:
    if request.topics is None:
        return ((topic.name, range(topic.partition_count)) for topic in catalogue.walk())
    return {topic.topic: topic.partitions for topic in request.topics}.items()


async def _described(broker: "Broker", name: str, index: int) -> DescribeLogDirsPartition | None:
    """None if the partition lies elsewhere or nowhere, or cannot be read."""
    try:
        lane = broker.lanes.at(broker.lanes.topic_named(name), index)
        written = lane.view.written(name, index)
        size = 0 if written is None else await lane.log.bytes_of(written)
    except (RequestError, CorruptJournal, OSError):
        return None
    return DescribeLogDirsPartition(index, size, 0, False)
