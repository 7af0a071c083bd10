"""The sinks with a halt at each step: the process says where it is and waits to be let on.

Importing this module changes the classes of the process it is imported in if that process is to be
halted, and of no other: the tests themselves import it too. The sinks below carry its name to the
Python workers, which thereby import it as well.
"""

import json
import os
import socket
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from semel.client.writing.batch_writer import Delivery
from semel.client.writing.transactional_writer import TransactionalWriter
from semel.spark import committing
from semel.spark.committing import BatchTransaction
from semel.spark.marker import Verdict
from semel.spark.sink_settings import sink_options, sink_settings
from semel.spark.source import SemelSource
from semel.spark.volume import ExactlyOnce
from semel.spark.volume_tasks import Writing
from semel.spark.writers import BatchWriter, StreamWriter

HALTS = "SEMEL_TEST_HALTS"
"""The address at which steps are told, as host:port."""
UNCHECKED = "SEMEL_TEST_UNCHECKED"
"""Set where the number of the last batch is not to be looked at."""

_batch_id = -1
_is_to_write = False


def halt(step: str, batch_id: int | None = None, **facts: int) -> None:
    """Go on when told to; if the other side is gone, so is the reason to wait."""
    if HALTS not in os.environ:
        return  # The process of the tests themselves, which import this too.
    host, _, port = os.environ[HALTS].rpartition(":")
    known = {
        "step": step,
        "batch_id": _batch_id if batch_id is None else batch_id,
        "process_id": os.getpid(),
        "parent_id": os.getppid(),
        **facts,
    }
    with socket.create_connection((host, int(port))) as told:
        told.sendall(json.dumps(known).encode() + b"\n")
        told.recv(1)


def _halt_in_task() -> None:
    context = TaskContext.get()
    assert context is not None
    halt("task", int(context.getLocalProperty("streaming.sql.batchId") or -1))


_take_over = BatchTransaction.take_over
_finish = BatchTransaction.finish
_write = TransactionalWriter.write
_commit = TransactionalWriter.commit


async def _halting_take_over(self: BatchTransaction) -> Verdict:
    global _batch_id, _is_to_write  # noqa: PLW0603 - the later steps of a batch do not know these.
    _batch_id = self._batch.batch_id
    _is_to_write = False
    halt("before taking over")
    verdict = await _take_over(self)
    if verdict is Verdict.WRITE:
        _is_to_write = True
        halt("taken over")
    return verdict


async def _halting_finish(
    self: BatchTransaction, consumed: Any, rows: Any = (), written: Any = None
) -> None:
    if not rows:
        halt("written")  # By tasks.
    await _finish(self, consumed, rows, written)


async def _halting_write(self: TransactionalWriter, batches: Any) -> list[Delivery]:
    deliveries = await _write(self, batches)
    if _batch_id >= 0:  # A task knows no number, and has a step of its own.
        halt("written")
    return deliveries


async def _halting_commit(self: TransactionalWriter) -> None:
    if not _is_to_write:
        return await _commit(self)
    halt("marked")
    await _commit(self)
    halt("committed")
    return None


def _write_anyway(*_: Any, **__: Any) -> Verdict:
    return Verdict.WRITE


if HALTS in os.environ:
    BatchTransaction.take_over = _halting_take_over  # type: ignore[method-assign]
    BatchTransaction.finish = _halting_finish  # type: ignore[method-assign]
    TransactionalWriter.write = _halting_write  # type: ignore[method-assign]
    TransactionalWriter.commit = _halting_commit  # type: ignore[method-assign]
if os.environ.get(UNCHECKED):
    committing.judge = _write_anyway  # type: ignore[attr-defined]


class HaltingWriter(StreamWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        message = super().write(iterator)
        _halt_in_task()
        return message


class HaltingBatchWriter(BatchWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        message = super().write(iterator)
        _halt_in_task()
        return message


class HaltingSource(SemelSource):
    """`format("halting")`: the default sink, and `df.write`."""

    @classmethod
    def name(cls) -> str:
        return "halting"

    def streamWriter(  # noqa: N802 - Spark's name.
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        return HaltingWriter(sink_settings(sink_options(self.options)), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return HaltingBatchWriter(sink_settings(sink_options(self.options)), schema, None)


class _HaltingWriting:
    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self._writing(batches)
        _halt_in_task()


class HaltingExactlyOnce(ExactlyOnce):
    """The sink for volume."""

    def _stage(self, writing: Writing) -> Any:
        return _HaltingWriting(writing).__call__


def halting_exactly_once(**options: str) -> HaltingExactlyOnce:
    read = sink_options(options)
    settings = sink_settings(read, is_for_volume=True)
    return HaltingExactlyOnce(None, settings, retries=3, driver_port=0)
