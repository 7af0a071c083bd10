"""Readers that follow partitions by long poll, and read again what they have read before.

Some read all that there is, and some what is committed.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from semel.errors import (
    FencedLeaderEpoch,
    LeaderNotAvailable,
    OffsetNotAvailable,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from semel.records.batch import BatchHeader, split
from semel.records.records import Record, decode_batch
from semel.types import TopicPartition
from semel.verify.history import (
    ABORT_MARKER,
    COMMIT_MARKER,
    CommittedFetched,
    EndSeen,
    Fetched,
    FetchRefused,
    Forbidden,
    StableEndSeen,
    StartSeen,
    Stored,
    TermEndSeen,
)
from semel.verify.workloads.client import Client, Connection, Lost, Reply
from semel.verify.workloads.producers import label_of
from semel.wire.messages import fetch, list_offsets, offset_for_leader_epoch

LATEST = -1
EARLIEST = -2
LEADER_EPOCH_SINCE = 9
FETCH_BYTES_MAX = 1_000_000
COMMIT_KEY = bytes((0, 0, 0, 1))
READ_COMMITTED = 1
ISOLATION_SINCE = 2


class _Follower(ABC):
    """Connects, reads on and looks around, and begins anew when the connection is lost."""

    def __init__(
        self,
        client: Client,
        partitions: Sequence[TopicPartition],
        *,
        begins_anywhere: bool = False,
    ) -> None:
        self._client = client
        self._positions = dict.fromkeys(partitions, 0)
        self._begins_anywhere = begins_anywhere
        """Not only at 0: in the middle of batches, in gaps, and before what is left."""

    async def run(self) -> None:
        while True:
            connection = await self._client.connect(next(iter(self._positions)))
            if self._client.rng.random() < 0.3:
                self._positions = dict.fromkeys(self._positions, 0)
            try:
                if self._begins_anywhere:
                    await begin_anywhere(self._client, connection, self._positions)
                while True:
                    await self._fetch(connection)
                    if self._client.rng.random() < 0.1:
                        await self._look_around(connection)
                    await self._client.think()
            except Lost:
                await self._client.back_off()

    @abstractmethod
    async def _fetch(self, connection: Connection) -> None: ...

    @abstractmethod
    async def _look_around(self, connection: Connection) -> None: ...


class Reader(_Follower):
    """Of all that there is."""

    async def _fetch(self, connection: Connection) -> None:
        rng = self._client.rng
        names_term = rng.random() < 0.5
        request = fetch_request(
            self._positions,
            max_wait_ms=rng.choice((0, 50, 300)),
            min_bytes=rng.choice((0, 1, 1, 500)),
            max_bytes=rng.choice((1, 500, 5000, FETCH_BYTES_MAX)),
            leader_epoch=connection.term if names_term else -1,
        )
        reply = await connection.ask(fetch, request)
        for partition, data in partitions_of(reply.message):
            position = self._positions[partition]
            if data.error_code:
                self._refused(partition, position, data.error_code)
                if data.error_code == OffsetOutOfRange.code:
                    self._positions[partition] = await start_of(connection, partition)
                continue
            note_start(self._client, reply, partition, data)
            records, self._positions[partition] = stored_records(data, position)
            self._client.history.note(
                Fetched(
                    reply.span, self._client.name, partition, position, records, data.high_watermark
                )
            )

    def _refused(self, partition: TopicPartition, position: int, code: int) -> None:
        self._client.history.note(FetchRefused(self._client.name, partition, position, code))
        if code in (FencedLeaderEpoch.code, UnknownLeaderEpoch.code):
            raise Lost

    async def _trespass(self, connection: Connection) -> None:
        """A leadership that is over, or has not begun, may not be read from."""
        partition = self._client.rng.choice(list(self._positions))
        for term in (connection.term - 1, connection.term + 1):
            if connection.term < 0 or term < 0:
                continue
            request = fetch_request({partition: 0}, leader_epoch=term)
            reply = await connection.ask(fetch, request, version_min=LEADER_EPOCH_SINCE)
            ((_, data),) = partitions_of(reply.message)
            if data.error_code not in (FencedLeaderEpoch.code, UnknownLeaderEpoch.code):
                self._client.history.note(Forbidden(f"a fetch in term {term} of {connection.term}"))

    async def _look_around(self, connection: Connection) -> None:
        partition = self._client.rng.choice(list(self._positions))
        self._client.history.note(await end_of(connection, partition))
        if connection.term >= 0:
            asked = self._client.rng.randint(0, connection.term)
            self._client.history.note(await term_end_of(connection, partition, asked))
        await self._trespass(connection)


class CommittedReader(_Follower):
    """Under read_committed: it drops what the broker calls aborted, and steps over markers."""

    async def _look_around(self, connection: Connection) -> None:
        partition = self._client.rng.choice(list(self._positions))
        self._client.history.note(await stable_end_of(connection, partition))

    async def _fetch(self, connection: Connection) -> None:
        rng = self._client.rng
        request = fetch_request(
            self._positions,
            max_wait_ms=rng.choice((0, 50, 300)),
            min_bytes=rng.choice((0, 1, 1, 500)),
            max_bytes=rng.choice((1, 500, 5000, FETCH_BYTES_MAX)),
            isolation_level=READ_COMMITTED,
        )
        reply = await connection.ask(fetch, request)
        for partition, data in partitions_of(reply.message):
            position = self._positions[partition]
            if data.error_code:
                self._client.history.note(
                    FetchRefused(self._client.name, partition, position, data.error_code)
                )
                if data.error_code == OffsetOutOfRange.code:
                    self._positions[partition] = await start_of(connection, partition)
                continue
            note_start(self._client, reply, partition, data)
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
                    connection.epoch,
                )
            )


async def begin_anywhere(
    client: Client, connection: Connection, positions: dict[TopicPartition, int]
) -> None:
    """Half of the positions are moved to where anything may be."""
    for partition in positions:
        if client.rng.random() < 0.5:
            seen = await end_of(connection, partition)
            client.history.note(seen)
            positions[partition] = client.rng.randint(0, seen.end_offset)


def note_start(
    client: Client, reply: Reply, partition: TopicPartition, data: fetch.PartitionData
) -> None:
    # Old versions of the reply do not tell it.
    if data.log_start_offset >= 0 and data.last_stable_offset >= 0:
        client.history.note(
            StartSeen(reply.span, partition, data.log_start_offset, data.last_stable_offset)
        )


def fetch_request(
    positions: dict[TopicPartition, int],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
    max_bytes: int = FETCH_BYTES_MAX,
    leader_epoch: int = -1,
    isolation_level: int = 0,
) -> fetch.FetchRequest:
    by_topic: dict[str, list[fetch.FetchPartition]] = {}
    for partition, position in positions.items():
        by_topic.setdefault(partition.topic, []).append(
            fetch.FetchPartition(
                partition.partition,
                leader_epoch,
                position,
                partition_max_bytes=FETCH_BYTES_MAX,
            )
        )
    topics = [fetch.FetchTopic(name, parts) for name, parts in by_topic.items()]
    return fetch.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        topics=topics,
    )


def partitions_of(
    response: fetch.FetchResponse,
) -> list[tuple[TopicPartition, fetch.PartitionData]]:
    return [
        (TopicPartition(topic.topic, data.partition_index), data)
        for topic in response.responses
        for data in topic.partitions
    ]


def stored_records(data: fetch.PartitionData, from_offset: int) -> tuple[tuple[Stored, ...], int]:
    """The records behind `from_offset`; a batch is given whole, also what lies before it. Also
    gives where to read on: a batch may have more offsets than records."""
    content = data.records or b""
    assert not isinstance(content, list)
    records: list[Stored] = []
    next_offset = from_offset
    for header, batch in split(content):
        next_offset = header.last_offset + 1
        found = [stored(header, record) for record in decode_batch(batch)]
        records += [each for each in found if each.offset >= from_offset]
    return tuple(records), next_offset


def stored(header: BatchHeader, record: Record) -> Stored:
    if not header.is_transactional:
        return Stored(record.offset, header.leader_epoch, label_of(record))
    label = label_of(record)
    if header.is_control:
        label = COMMIT_MARKER if record.key == COMMIT_KEY else ABORT_MARKER
    return Stored(
        record.offset, header.leader_epoch, label, header.producer_id, header.producer_epoch
    )


def list_request(partition: TopicPartition, timestamp: int) -> list_offsets.ListOffsetsRequest:
    wanted = list_offsets.ListOffsetsPartition(partition.partition, timestamp=timestamp)
    return list_offsets.ListOffsetsRequest(
        -1, topics=[list_offsets.ListOffsetsTopic(partition.topic, [wanted])]
    )


async def end_of(connection: Connection, partition: TopicPartition) -> EndSeen:
    reply = await connection.ask(list_offsets, list_request(partition, LATEST))
    (found,) = reply.message.topics[0].partitions
    assert found.error_code == 0, f"ListOffsets of {partition}: {found.error_code}"
    return EndSeen(reply.span, partition, found.offset)


async def start_of(connection: Connection, partition: TopicPartition) -> int:
    reply = await connection.ask(list_offsets, list_request(partition, EARLIEST))
    (found,) = reply.message.topics[0].partitions
    assert found.error_code == 0, f"ListOffsets of {partition}: {found.error_code}"
    start: int = found.offset
    return start


async def term_end_of(connection: Connection, partition: TopicPartition, asked: int) -> TermEndSeen:
    messages = offset_for_leader_epoch
    wanted = messages.OffsetForLeaderPartition(partition.partition, leader_epoch=asked)
    request = messages.OffsetForLeaderEpochRequest(
        topics=[messages.OffsetForLeaderTopic(partition.topic, [wanted])]
    )
    reply: Reply = await connection.ask(messages, request)
    (found,) = reply.message.topics[0].partitions
    assert found.error_code == 0, f"OffsetForLeaderEpoch of {partition}: {found.error_code}"
    return TermEndSeen(reply.span, partition, asked, found.end_offset, connection.term)


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
            # Compaction may have left nothing of a marker but its header.
            if not found or found[0].label == ABORT_MARKER:
                dropped.discard(header.producer_id)
        elif not header.is_transactional or header.producer_id not in dropped:
            records += [each for each in found if each.offset >= from_offset]
    return tuple(records), next_offset


async def stable_end_of(connection: Connection, partition: TopicPartition) -> StableEndSeen:
    wanted = list_offsets.ListOffsetsPartition(partition.partition, timestamp=LATEST)
    request = list_offsets.ListOffsetsRequest(
        -1,
        isolation_level=READ_COMMITTED,
        topics=[list_offsets.ListOffsetsTopic(partition.topic, [wanted])],
    )
    reply = await connection.ask(list_offsets, request, version_min=ISOLATION_SINCE)
    (found,) = reply.message.topics[0].partitions
    if found.error_code in (LeaderNotAvailable.code, OffsetNotAvailable.code):
        # How a transaction over lanes has ended is being asked for.
        raise Lost
    assert found.error_code == 0, f"ListOffsets of {partition}: {found.error_code}"
    return StableEndSeen(reply.span, partition, found.offset)
