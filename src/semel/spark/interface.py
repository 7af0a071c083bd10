"""PySpark's interface for sources and sinks, and what stands in for the parts that are new in it.

4.2 lets a source limit a micro-batch and 4.1 lets the sink of a stream take Arrow. Before, a source
is asked for all there is, and a sink is given rows.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    LIMITS_BATCHES = True
    GIVES_ARROW = True
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )

        LIMITS_BATCHES = True
    except ImportError:
        LIMITS_BATCHES = False

        class ReadLimit: ...

        class ReadAllAvailable(ReadLimit): ...

        class ReadMaxRows(ReadLimit): ...

        class ReadMinRows(ReadLimit): ...

        class ReadMaxBytes(ReadLimit): ...

        class SupportsTriggerAvailableNow: ...

    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter

        GIVES_ARROW = True
    except ImportError:
        from pyspark.sql.datasource import DataSourceStreamWriter as DataSourceStreamArrowWriter

        GIVES_ARROW = False

__all__ = [
    "GIVES_ARROW",
    "LIMITS_BATCHES",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
]
