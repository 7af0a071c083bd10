"""The batches of one partition as they are stored: markers and aborted records included."""

from collections.abc import AsyncIterator
from typing import NamedTuple

from semel.client.cluster import Cluster
from semel.client.offsets import Isolation
from semel.client.refusal import raise_for
from semel.errors import OffsetOutOfRange, RecordListTooLarge
from semel.records.batch import BatchHeader, split
from semel.types import Buffer, TopicPartition
from semel.wire.messages import fetch

_CONSUMER = -1
_WAIT_MS_MAX = 500
_FETCH_SIZE_MAX = 4 * 1024 * 1024


class StoredBatch(NamedTuple):
    header: BatchHeader
    content: memoryview


async def stored_batches(
    cluster: Cluster, place: TopicPartition, start: int, stop: int
) -> AsyncIterator[StoredBatch]:
    """The batches with an offset in [start, stop), or up to the end if that comes before."""
    offset = start
    while offset < stop:
        fetched = await _fetch(cluster, place, offset)
        if not len(fetched):
            return
        before = offset
        for header, content in split(fetched):
            if header.base_offset >= stop:
                return
            offset = header.last_offset + 1
            yield StoredBatch(header, content)
        if offset == before:
            raise RecordListTooLarge(
                f"a batch of {place} does not fit into the {_FETCH_SIZE_MAX} bytes asked for"
            )


async def _fetch(cluster: Cluster, place: TopicPartition, offset: int) -> Buffer:
    request = fetch.FetchRequest(
        replica_id=_CONSUMER,
        max_wait_ms=_WAIT_MS_MAX,
        min_bytes=1,
        max_bytes=_FETCH_SIZE_MAX,
        isolation_level=Isolation.READ_UNCOMMITTED,
        topics=[
            fetch.FetchTopic(
                place.topic,
                [
                    fetch.FetchPartition(
                        partition=place.partition,
                        fetch_offset=offset,
                        partition_max_bytes=_FETCH_SIZE_MAX,
                    )
                ],
            )
        ],
        forgotten_topics_data=[],
    )

    async def attempt() -> Buffer:
        leader_id = (await cluster.leaders_of([place]))[place]
        reply = await cluster.call(leader_id, fetch, request)
        raise_for(reply.error_code, f"fetch of {place}")
        ((answer,),) = (topic.partitions for topic in reply.responses)
        if answer.error_code == OffsetOutOfRange.code:
            raise OffsetOutOfRange(f"offset {offset} is not in partition {place}")
        raise_for(answer.error_code, f"{place}")
        batches = answer.records
        # Read from the wire, records are one piece.
        assert not isinstance(batches, list)
        return batches or b""

    return await cluster.retry(attempt)
