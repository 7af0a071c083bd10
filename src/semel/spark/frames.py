"""What a micro-batch writes, as one data frame with the columns of a sink."""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import LongType

from semel.errors import ConfigError
from semel.spark.rows import WRITTEN_COLUMNS, check_columns

_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
    "timestamp": "timestamp",
    "partition": "int",
}


def one_frame(output: DataFrame | Mapping[str, DataFrame], topic: str | None) -> DataFrame:
    """The rows of all topics, and of their columns only those that are written."""
    if isinstance(output, Mapping):
        if not output:
            raise ConfigError("nothing is to be written: the function gave no topics")
        return reduce(DataFrame.unionAll, (_of_topic(*each) for each in output.items()))
    check_columns(output.schema, topic)
    wanted = [name for name in WRITTEN_COLUMNS if name in output.columns]
    if topic is not None and "topic" in wanted:
        wanted.remove("topic")
    return output.select(*wanted)


def _of_topic(topic: str, frame: DataFrame) -> DataFrame:
    check_columns(frame.schema, topic)
    columns = [_column(frame, name).cast(kind).alias(name) for name, kind in _COLUMNS.items()]
    return frame.select(*columns, f.lit(topic).alias("topic"))


def _column(frame: DataFrame, name: str) -> Column:
    if name not in frame.columns:
        return f.lit(None)
    if name == "timestamp" and isinstance(frame.schema[name].dataType, LongType):
        # A cast would take milliseconds for seconds.
        return f.timestamp_millis(name)
    return f.col(name)
