"""The floor of a pipeline: a source that has its rows in memory, and a sink that drops them.

Both are Python data sources that hand over Arrow, as ours are, so that what Spark itself takes for
moving rows is on either side of a ratio.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from semel.spark.worker_process import begin_task

BATCH_ROWS = 32_768
KEY_SIZE = 8
VALUE_SIZE = 100
SCHEMA = "key binary, value binary"


@functools.cache
def columns(count: int) -> pa.RecordBatch:
    """Rows of 108 bytes; values are hexadecimal digits, of which a quarter is the same in all."""
    numbers = np.random.default_rng(7)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    values = digits[numbers.integers(0, 16, (count, VALUE_SIZE))]
    values[:, : VALUE_SIZE // 4] = np.frombuffer(b"x" * (VALUE_SIZE // 4), np.uint8)
    keys = digits[numbers.integers(0, 16, (count, KEY_SIZE))]
    arrays = [
        pa.Array.from_buffers(
            pa.binary(),
            count,
            [
                None,
                pa.py_buffer(np.arange(0, (count + 1) * size, size, dtype=np.int32)),
                pa.py_buffer(np.ascontiguousarray(content)),
            ],
        )
        for content, size in ((keys, KEY_SIZE), (values, VALUE_SIZE))
    ]
    return pa.RecordBatch.from_arrays(arrays, names=["key", "value"])


class Rows(InputPartition):
    def __init__(self, count: int) -> None:
        super().__init__(count)


class MemoryReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`batches` micro-batches of `rows` rows each, in `tasks` tasks."""

    def __init__(self, rows: int, batches: int, tasks: int) -> None:
        self._rows, self._batches, self._tasks = rows, batches, tasks

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's names.
        return {"batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        pass

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return {"batch": min(start["batch"] + 1, self._batches)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [Rows(self._rows // self._tasks) for _ in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        whole = columns(BATCH_ROWS)
        left = partition.value
        while left > 0:
            yield whole.slice(0, min(left, BATCH_ROWS))
            left -= BATCH_ROWS


class Nothing(WriterCommitMessage):
    pass


class DroppingWriter(DataSourceStreamArrowWriter):
    """Settles its process as our sink does, so that what it lacks is the writing alone."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        begin_task()
        for _ in iterator:
            pass
        return Nothing()

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        begin_task()

    def abort(self, messages: Any, batchId: int) -> None:  # noqa: N803
        pass


class InMemory(DataSource):
    @classmethod
    def name(cls) -> str:
        return "in_memory"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        rows, batches, tasks = (int(self.options[name]) for name in ("rows", "batches", "tasks"))
        return MemoryReader(rows, batches, tasks)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DroppingWriter:  # noqa: N802
        return DroppingWriter()
