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


class Tracing:
    """Takes the batches of a partition in their order, and tells the transactions from them."""

    def __init__(self, producer_ids: frozenset[int]) -> None:
        self._producer_ids = producer_ids
        self._ended: list[Trace] = []
        self._open: dict[int, Written] = {}

    def meet(self, header: BatchHeader, content: memoryview) -> None:
        producer_id = header.producer_id
        if not header.is_transactional or producer_id not in self._producer_ids:
            return
        if header.is_control:
            written = self._open.pop(producer_id, None)
            # One that a cleaner has emptied does not say how its transaction ended.
            if (marker := decode_marker(content)) is not None:
                self._ended.append(Trace(producer_id, written, marker))
        elif header.record_count:
            self._open[producer_id] = _longer(self._open.get(producer_id), header)

    def traces(self) -> list[Trace]:
        """Those that have ended, in the order of their ends, and behind them the open ones."""
        still_open = (Trace(each, written, None) for each, written in self._open.items())
        return [*self._ended, *still_open]


async def traces_in(
    cluster: Cluster, place: TopicPartition, producer_ids: frozenset[int], start: int, stop: int
) -> list[Trace]:
    """The transactions of these producers in [start, stop), in the order of their ends."""
    tracing = Tracing(producer_ids)
    size = 0
    async for header, content in stored_batches(cluster, place, start, stop):
        size += len(content)
        if size > SIZE_MAX:
            break
        tracing.meet(header, content)
    return tracing.traces()


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
