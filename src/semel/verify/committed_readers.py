"""Readers under read_committed: they drop what the broker calls aborted, and step over markers."""

from collections.abc import Sequence

from semel.records.batch import split
from semel.records.records import decode_batch
from semel.types import TopicPartition
from semel.verify.client import Client
from semel.verify.history import FetchRefused, Stored
from semel.verify.link import Link, Lost
from semel.verify.readers import (
    ABORT_MARKER,
    FETCH_BYTES_MAX,
    LATEST,
    fetch_request,
    partitions_of,
    stored,
)
from semel.verify.transaction_history import CommittedFetched, StableEndSeen
from semel.wire.messages import fetch, list_offsets

READ_COMMITTED = 1
ISOLATION_SINCE = 2


class CommittedReader:
    def __init__(self, client: Client, partitions: Sequence[TopicPartition]) -> None:
        self._client = client
        self._positions = dict.fromkeys(partitions, 0)

    async def run(self) -> None:
        while True:
            link = await self._client.link()
            if self._client.rng.random() < 0.3:
                self._positions = dict.fromkeys(self._positions, 0)
            try:
                while True:
                    await self._fetch(link)
                    if self._client.rng.random() < 0.1:
                        partition = self._client.rng.choice(list(self._positions))
                        self._client.history.note(await stable_end_of(link, partition))
                    await self._client.think()
            except Lost:
                await self._client.back_off()

    async def _fetch(self, link: Link) -> None:
        rng = self._client.rng
        request = fetch_request(
            self._positions,
            max_wait_ms=rng.choice((0, 50, 300)),
            min_bytes=rng.choice((0, 1, 1, 500)),
            max_bytes=rng.choice((1, 500, 5000, FETCH_BYTES_MAX)),
            isolation_level=READ_COMMITTED,
        )
        reply = await link.ask(fetch, request)
        for partition, data in partitions_of(reply.message):
            position = self._positions[partition]
            if data.error_code:
                self._client.history.note(
                    FetchRefused(self._client.name, partition, position, data.error_code)
                )
                continue
            records, next_offset = committed_records(data, position)
            self._positions[partition] = next_offset
            self._client.history.note(
                CommittedFetched(
                    reply.span,
                    self._client.name,
                    partition,
                    position,
                    next_offset,
                    records,
                    data.last_stable_offset,
                    data.high_watermark,
                )
            )


def committed_records(
    data: fetch.PartitionData, from_offset: int
) -> tuple[tuple[Stored, ...], int]:
    """As consumers do it: from where an aborted transaction is said to begin, all of its producer
    is dropped up to its abort marker. Also gives where to read on."""
    content = data.records or b""
    assert not isinstance(content, list)
    aborted = sorted(
        (each.first_offset, each.producer_id) for each in data.aborted_transactions or ()
    )
    dropped: set[int] = set()
    records: list[Stored] = []
    next_offset = from_offset
    for header, batch in split(content):
        next_offset = header.last_offset + 1
        while aborted and aborted[0][0] <= header.last_offset:
            dropped.add(aborted.pop(0)[1])
        found = [stored(header, record) for record in decode_batch(batch)]
        if header.is_control:
            # A log cleaner may have left nothing of a marker but its header.
            if not found or found[0].label == ABORT_MARKER:
                dropped.discard(header.producer_id)
        elif not header.is_transactional or header.producer_id not in dropped:
            records += [each for each in found if each.offset >= from_offset]
    return tuple(records), next_offset


async def stable_end_of(link: Link, partition: TopicPartition) -> StableEndSeen:
    wanted = list_offsets.ListOffsetsPartition(partition.partition, timestamp=LATEST)
    request = list_offsets.ListOffsetsRequest(
        -1,
        isolation_level=READ_COMMITTED,
        topics=[list_offsets.ListOffsetsTopic(partition.topic, [wanted])],
    )
    reply = await link.ask(list_offsets, request, version_min=ISOLATION_SINCE)
    (found,) = reply.message.topics[0].partitions
    assert found.error_code == 0, f"ListOffsets of {partition}: {found.error_code}"
    return StableEndSeen(reply.span, partition, found.offset)
