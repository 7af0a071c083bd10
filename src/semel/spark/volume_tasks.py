"""What tasks of the sink for volume do: rows into batches, and batches into the log.

All of them write under the producer id and epoch of the driver's transaction, to any partition,
each when it is its turn. While one group of batches is written the next one is encoded.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from semel.client.cluster.blocking import Connected, shared
from semel.client.cluster.calls import together
from semel.client.cluster.loop_thread import Started
from semel.client.columns.encode import EncodedBatch
from semel.client.writing.transactional_writer import TransactionParticipant
from semel.spark.rows import Destination, Encoder
from semel.spark.sentences import SentenceFirst
from semel.spark.sink_settings import SinkSettings
from semel.spark.targets import partition_count
from semel.spark.turn_client import TaskTurns
from semel.spark.turn_messages import TurnAddress
from semel.spark.turns import Attempt
from semel.spark.worker_process import begin_task
from semel.types import ProducerIdAndEpoch, TopicPartition
from semel.world import SystemClock

WRITTEN = "topic string, partition int, recordCount long, size long, taskNumber int, attemptId long"

_WRITTEN_COLUMNS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("recordCount", pa.int64()),
        ("size", pa.int64()),
        ("taskNumber", pa.int32()),
        ("attemptId", pa.int64()),
    ]
)
_GROUP_SIZE_MIN = 4 * 1024 * 1024

_Row = tuple[str, int, int, int]
"""Topic and partition, records, bytes."""

_Group = dict[TopicPartition, list[EncodedBatch]]


class Writing(NamedTuple):
    """A part of the transaction that the driver has opened."""

    settings: SinkSettings
    destination: Destination
    transactional_id: str
    producer: ProducerIdAndEpoch
    turns: TurnAddress

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        context = TaskContext.get()
        assert context is not None, "this runs in a task"
        attempt = Attempt(context.partitionId(), context.taskAttemptId())
        client = self.settings.client
        encoder = Encoder(
            self.destination,
            SystemClock().wall_ms(),
            attempt.task_number,
            lambda topic: partition_count(client, topic),
        )
        connected = shared(client)
        task = _Task(
            TransactionParticipant(connected.cluster, self.transactional_id, self.producer),
            TaskTurns(self.turns, attempt),
        )
        with SentenceFirst():
            groups = _groups(encoder.encode_all(batches))
            yield _written(task.write_all(connected, groups), attempt)


def _groups(batches: Iterable[tuple[TopicPartition, EncodedBatch]]) -> Iterator[_Group]:
    """Some megabytes at a time, so that few turns are taken."""
    group: _Group = defaultdict(list)
    size = 0
    for partition, batch in batches:
        group[partition].append(batch)
        size += len(batch.content)
        if size >= _GROUP_SIZE_MIN:
            yield group
            group, size = defaultdict(list), 0
    if group:
        yield group


class _Task:
    def __init__(self, participant: TransactionParticipant, turns: TaskTurns) -> None:
        self._participant = participant
        self._turns = turns
        self._counts: dict[TopicPartition, int] = defaultdict(int)
        self._sizes: dict[TopicPartition, int] = defaultdict(int)

    def write_all(self, connected: Connected, groups: Iterator[_Group]) -> list[_Row]:
        """A task without rows asks for nothing, and may be started as often as Spark likes."""
        first = next(groups, None)
        if first is None:
            return []
        connected.run(self._turns.connect())
        try:
            self._write_listening(connected, first, groups)
        except BaseException as error:
            connected.run(self._turns.give_up(error))
            raise
        finally:
            connected.run(self._turns.close())
        return [(*each, count, self._sizes[each]) for each, count in self._counts.items()]

    def _write_listening(
        self, connected: Connected, first: _Group, others: Iterator[_Group]
    ) -> None:
        listening = connected.start(self._turns.listen())
        try:
            self._write_ahead(connected, first, others)
            connected.run(self._turns.finish())
        finally:
            listening.give_up()

    def _write_ahead(self, connected: Connected, first: _Group, others: Iterator[_Group]) -> None:
        under_way: Started[None] = connected.start(self._write(first))
        try:
            for group in others:
                under_way.result()
                under_way = connected.start(self._write(group))
            under_way.result()
        except BaseException:
            under_way.give_up()
            raise

    async def _write(self, group: _Group) -> None:
        await together(self._write_to(partition, batches) for partition, batches in group.items())

    async def _write_to(self, partition: TopicPartition, batches: list[EncodedBatch]) -> None:
        count = sum(batch.record_count for batch in batches)
        sequence = await self._turns.take(partition, count)
        await self._participant.write(partition, [batch.content for batch in batches], sequence)
        self._turns.give_back(partition)
        self._counts[partition] += count
        self._sizes[partition] += sum(len(batch.content) for batch in batches)


def _written(found: list[_Row], attempt: Attempt) -> pa.RecordBatch:
    rows = [(*row, *attempt) for row in found]
    columns: list[Any] = list(zip(*rows, strict=True)) if rows else [()] * len(_WRITTEN_COLUMNS)
    arrays = [
        pa.array(each, kind.type) for each, kind in zip(columns, _WRITTEN_COLUMNS, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_WRITTEN_COLUMNS)
