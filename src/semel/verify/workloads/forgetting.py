"""Clients of topics that do not keep everything: what they write, and who deletes from them."""

import asyncio
from collections.abc import Mapping, Sequence

from semel.errors import UnknownTopicOrPartition
from semel.records.records import Record
from semel.types import TopicPartition
from semel.verify.history import Compacted, History, Limits, MayBeGone, RecordMade, Resurrected
from semel.verify.workloads.administrators import make_topic
from semel.verify.workloads.client import Client, Connection, Lost
from semel.verify.workloads.producers import (
    ACKS_ALL,
    Contents,
    encoded,
    outcomes,
    plain_contents,
    request_of,
)
from semel.verify.workloads.readers import end_of, fetch_request, partitions_of, stored_records
from semel.verify.workloads.transactional_producers import CHANGED_ITS_MIND, TransactionalProducer
from semel.verify.world.loop import START_MS
from semel.wire.messages import delete_records, delete_topics, fetch, produce

KEYS = [*(f"hot-{number}" for number in range(4)), *(f"cold-{number}" for number in range(24))]
HOT_COUNT = 4
"""Of the first keys half of the records are."""
TOMBSTONE_SHARE = 0.25
PADDING_SIZES = (0, 1_000, 3_000, 3_500)
AGES_MS = (0, 0, 0, 300, 60_000)
"""Of records when they are sent: some are older than those before them."""
AGAIN = "again"


def note_limits(history: History, topic: str, settings: Mapping[str, str]) -> None:
    if not settings:
        return
    policies = settings.get("cleanup.policy", "delete").split(",")
    retention_ms = retention_bytes = None
    if "delete" in policies:
        retention_ms = _limit(settings.get("retention.ms"))
        retention_bytes = _limit(settings.get("retention.bytes"))
    delete_retention_ms = int(settings.get("delete.retention.ms", 0))
    history.note(Limits(topic, retention_ms, retention_bytes, delete_retention_ms))
    if "compact" in policies:
        history.note(Compacted(topic))


def _limit(setting: str | None) -> int | None:
    return None if setting in (None, "-1") else int(setting)


def contents_of(settings: Mapping[str, Mapping[str, str]]) -> Contents:
    """Records as these topics need them: with keys where they are compacted."""

    def contents(client: Client, partition: TopicPartition, labels: Sequence[str]) -> list[Record]:
        is_keyed = "compact" in settings[partition.topic].get("cleanup.policy", "")
        return [_record(client, partition, label, is_keyed=is_keyed) for label in labels]

    return contents


def _record(client: Client, partition: TopicPartition, label: str, *, is_keyed: bool) -> Record:
    rng = client.rng
    key = None
    if is_keyed:
        key = rng.choice(KEYS[:HOT_COUNT] if rng.random() < 0.5 else KEYS)
    has_value = not is_keyed or rng.random() >= TOMBSTONE_SHARE
    timestamp_ms = START_MS + int(client.now_s() * 1000) - rng.choice(AGES_MS)
    client.history.note(RecordMade(partition, label, key, has_value, timestamp_ms))
    encoded_key = None if key is None else key.encode()
    if not has_value:
        return Record(encoded_key, None, timestamp_ms, (("label", label.encode()),))
    padding = bytes(rng.choice(PADDING_SIZES))
    return Record(encoded_key, f"{label} ".encode() + padding, timestamp_ms)


class Ponderer(TransactionalProducer):
    """Leaves its transactions open for long, and then changes its mind more often than others."""

    async def _fill(self, attempt: str, added: set[TopicPartition]) -> int:
        code = await super()._fill(attempt, added)
        if code == 0:
            await asyncio.sleep(self._rng.choice((0.3, 1.5, 3.0)))
        if code == 0 and self._rng.random() < 0.5:
            return CHANGED_ITS_MIND
        return code


class Trimmer:
    """Has the oldest records deleted, up to anywhere."""

    def __init__(self, client: Client, partitions: Sequence[TopicPartition]) -> None:
        self._client = client
        self._partitions = partitions

    async def run(self) -> None:
        self._client.pace = 20.0
        while True:
            connection = await self._client.connect()
            try:
                while True:
                    await self._client.think()
                    await self._trim(connection, self._client.rng.choice(self._partitions))
            except Lost:
                await self._client.back_off()
            connection.drop()

    async def _trim(self, connection: Connection, partition: TopicPartition) -> None:
        seen = await end_of(connection, partition)
        before = self._client.rng.randint(seen.end_offset // 2, seen.end_offset)
        self._client.history.note(MayBeGone(partition, before))
        asked = delete_records.DeleteRecordsPartition(partition.partition, before)
        await connection.ask(
            delete_records,
            delete_records.DeleteRecordsRequest(
                [delete_records.DeleteRecordsTopic(partition.topic, [asked])], 1000
            ),
        )


class Remaker:
    """Deletes a topic and makes it again under its name: nothing of its former lives is in it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._life = 0
        self._former: set[str] = set()
        """Acknowledged in lives that are over."""

    async def run(self) -> None:
        self._client.pace = 4.0
        while True:
            connection = await self._client.connect()
            try:
                while True:
                    await self._live(connection)
            except Lost:
                await self._client.back_off()
            connection.drop()

    async def _live(self, connection: Connection) -> None:
        self._life += 1
        await self._delete(connection)
        if await make_topic(connection, AGAIN, 1, {"retention.ms": "-1"}) is None:
            raise Lost
        partition = TopicPartition(AGAIN, 0)
        written: list[str] = []
        try:
            for number in range(self._client.rng.randint(1, 15)):
                label = f"{self._client.name}-{self._life}/{number}"
                records = plain_contents(self._client, partition, [label])
                small = [record._replace(value=(record.value or b"")[:2_000]) for record in records]
                content = encoded(self._client, small, (-1, -1, -1))
                reply = await connection.ask(produce, request_of(ACKS_ALL, [(partition, content)]))
                code, _ = outcomes(reply.message)[partition]
                if code:
                    raise Lost
                written.append(label)
                await self._client.think()
            await self._read(connection, partition, written)
        finally:
            self._former.update(written)

    async def _delete(self, connection: Connection) -> None:
        request = delete_topics.DeleteTopicsRequest(
            [delete_topics.DeleteTopicState(AGAIN)], [AGAIN], 1000
        )
        reply = await connection.ask(delete_topics, request)
        code = reply.message.responses[0].error_code
        if code not in (0, UnknownTopicOrPartition.code):
            raise Lost

    async def _read(
        self, connection: Connection, partition: TopicPartition, written: list[str]
    ) -> None:
        position = 0
        found: list[str] = []
        while True:
            reply = await connection.ask(fetch, fetch_request({partition: position}))
            ((_, data),) = partitions_of(reply.message)
            if data.error_code:
                raise Lost
            records, next_offset = stored_records(data, position)
            found += [stored.label for stored in records]
            if next_offset == position:
                break
            position = next_offset
        note = self._client.history.note
        for label in found:
            if label in self._former:
                note(Resurrected(f"{label} of a topic that was deleted"))
        for label in written:
            if label not in found:
                note(Resurrected(f"{AGAIN} as it was before {label} was written to it"))
