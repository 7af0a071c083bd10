"""A table to a topic: partitioned, encoded a part at a time, and sent while the next is encoded."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.client.cluster.blocking import Connected
from semel.client.cluster.loop_thread import Started
from semel.client.columns.encode import encode, rows_from
from semel.client.columns.frames import fitting
from semel.client.columns.headers import as_binary, as_numbers
from semel.client.columns.partitioning import ColumnPartitioner
from semel.client.outcome import MustAbort, MustStop
from semel.client.producing.coordination import new_producer_id
from semel.client.producing.partitioners import KeyHash
from semel.client.writing.batch_writer import Delivery, EncodedBatchWriter
from semel.client.writing.transactional_writer import TransactionalWriter
from semel.errors import SemelError, UnknownTopicOrPartition
from semel.records.compression import Compression
from semel.types import TopicPartition
from semel.world import Clock, SystemClock

_PART_SIZE = 8 * 1024 * 1024
_NO_PARTITION = -1


class Sending:
    def __init__(
        self,
        connected: Connected,
        topic: str,
        compression: Compression = Compression.NONE,
        transactional_id: str | None = None,
        *,
        key_hash: KeyHash = KeyHash.MURMUR2,
        clock: Clock | None = None,
    ) -> None:
        self._connected = connected
        self._topic = topic
        self._compression = compression
        self._transactional_id = transactional_id
        self._clock = clock or SystemClock()
        self._partitioner = ColumnPartitioner(key_hash)

    def send(self, table: pa.Table) -> list[Delivery]:
        table = fitting(table)
        cluster = self._connected.cluster
        described = self._connected.run(cluster.topic_to_write(self._topic))
        partition_count = len(described.partitions)
        if self._transactional_id is None:
            producer = self._connected.run(cluster.retry(lambda: new_producer_id(cluster)))
            return self._send_parts(EncodedBatchWriter(cluster, producer), table, partition_count)
        session = TransactionalWriter(cluster, self._transactional_id)
        self._connected.run(session.begin())
        try:
            deliveries = self._send_parts(session, table, partition_count)
        except MustStop:
            raise
        except BaseException as error:
            self._abort(session, error)
            raise
        try:
            self._connected.run(session.commit())
        except MustAbort as error:
            self._abort(session, error)
            raise
        return deliveries

    def _abort(self, session: TransactionalWriter, error: BaseException) -> None:
        try:
            self._connected.run(session.abort())
        except SemelError as failure:
            # The coordinator does so after the transaction's timeout.
            error.add_note(f"and the transaction could not be aborted: {failure}")

    def _send_parts(
        self,
        writer: EncodedBatchWriter | TransactionalWriter,
        table: pa.Table,
        partition_count: int,
    ) -> list[Delivery]:
        deliveries: list[Delivery] = []
        under_way: Started[list[Delivery]] | None = None
        try:
            for part in _parts(table):
                batches = self._encode(part, partition_count)
                if under_way is not None:
                    deliveries += under_way.result()
                under_way = self._connected.start(writer.write(batches))
            return deliveries if under_way is None else deliveries + under_way.result()
        except BaseException:
            if under_way is not None:
                # Nothing of it may come behind an abort.
                under_way.give_up()
            raise

    def _encode(
        self, part: pa.RecordBatch, partition_count: int
    ) -> list[tuple[TopicPartition, bytes]]:
        columns = dict(zip(part.schema.names, part.columns, strict=True))
        rows = rows_from(
            columns.get("key"),
            columns["value"],
            columns.get("timestamp"),
            columns.get("headers"),
            now_ms=self._clock.wall_ms(),
        )
        places = self._places(rows.keys, columns.get("partition"), partition_count)
        return [
            (TopicPartition(self._topic, batch.partition), batch.content)
            for batch in encode(rows, places, compression=self._compression)
        ]

    def _places(
        self, keys: pa.Array, wanted: pa.Array | None, partition_count: int
    ) -> npt.NDArray[np.int32]:
        places = self._partitioner.partitions_of(as_binary(keys), partition_count)
        if wanted is None:
            return places
        given = as_numbers(wanted.cast(pa.int64()), _NO_PARTITION)
        wrong = given[(given < _NO_PARTITION) | (given >= partition_count)]
        if wrong.size:
            raise UnknownTopicOrPartition(
                f"topic {self._topic} has no partition {wrong[0]}: it has {partition_count}; "
                f"without column partition, rows go to the partition of their key"
            )
        return np.where(given == _NO_PARTITION, places, given).astype(np.int32)


def _parts(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """The table in parts small enough to encode one while another is under way."""
    row_size = max(table.nbytes // max(table.num_rows, 1), 1)
    return iter(table.to_batches(max_chunksize=max(_PART_SIZE // row_size, 1)))
