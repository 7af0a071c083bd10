"""What the transactions of one producer id left in a partition: their data and their markers."""

from typing import NamedTuple

from semel.client.batches import stored_batches
from semel.client.cluster import Cluster
from semel.records.batch import BatchHeader
from semel.records.control import Marker, decode_marker
from semel.types import TopicPartition

SIZE_MAX = 64 * 1024 * 1024
"""Bytes that are read of one partition in search of traces."""


class Written(NamedTuple):
    """The records of one transaction in one partition."""

    first_offset: int
    last_offset: int
    record_count: int
    first_timestamp_ms: int
    """As the producer says, unless the topic stamps records itself."""
    producer_epoch: int


class Trace(NamedTuple):
    """One transaction in one partition; without a marker, it is open there."""

    producer_id: int
    written: Written | None
    marker: Marker | None


async def traces_in(
    cluster: Cluster, place: TopicPartition, producer_ids: frozenset[int], start: int, stop: int
) -> list[Trace]:
    """The transactions of these producers in [start, stop), in the order of their ends."""
    traces: list[Trace] = []
    open_yet: dict[int, Written] = {}
    size = 0
    async for header, content in stored_batches(cluster, place, start, stop):
        size += len(content)
        if size > SIZE_MAX:
            break
        producer_id = header.producer_id
        if not header.is_transactional or producer_id not in producer_ids:
            continue
        if not header.is_control:
            open_yet[producer_id] = _longer(open_yet.get(producer_id), header)
        elif (marker := decode_marker(content)) is not None:
            traces.append(Trace(producer_id, open_yet.pop(producer_id, None), marker))
    traces += (Trace(producer_id, written, None) for producer_id, written in open_yet.items())
    return traces


def _longer(written: Written | None, header: BatchHeader) -> Written:
    if written is None:
        written = Written(
            header.base_offset,
            header.last_offset,
            0,
            header.base_timestamp_ms,
            header.producer_epoch,
        )
    return written._replace(
        last_offset=header.last_offset, record_count=written.record_count + header.record_count
    )
