"""A session that Semel has not started: `python plain_session.py FOLDER`, with Java in JAVA_HOME.

Says what becomes of a source and of `exactly_once` before `register` and after, a line for each.
"""

import re
import sys
from pathlib import Path

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import semel
import semel.spark
from semel.testing import Broker
from spark import queries

NOT_FOUND = re.compile(r"DATA_SOURCE_NOT_FOUND")
ADVICE = re.compile(r"call semel\.spark\.register\(spark\)")


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")


def finish(frame: DataFrame, servers: str, checkpoint: Path) -> StreamingQuery:
    sink = semel.spark.exactly_once(topic="out", bootstrap_servers=servers)
    return queries.finish(frame.writeStream.foreachBatch(sink), checkpoint)


def main(folder: Path) -> None:
    with Broker() as broker:
        servers = broker.bootstrap_servers
        semel.write("in", pa.table({"value": [b"once"]}), bootstrap_servers=servers)
        spark = SparkSession.builder.getOrCreate()
        (folder / "text").mkdir()
        (folder / "text" / "one").write_text("twice\n")

        def rows() -> DataFrame:
            reader = spark.readStream.format("semel").option("kafka.bootstrap.servers", servers)
            reader = reader.option("subscribe", "in").option("startingOffsets", "earliest")
            return reader.load().select("value")

        try:
            rows()
        except Exception as error:  # noqa: BLE001 - it is named in the text of a Java error.
            say(*NOT_FOUND.findall(str(error))[:1])
        try:
            finish(spark.readStream.text(str(folder / "text")), servers, folder / "text-checkpoint")
        except StreamingQueryException as error:
            say(*ADVICE.findall(str(error))[:1])
        semel.spark.register(spark)
        finish(rows(), servers, folder / "checkpoint")
        copy = rows().writeStream.format("semel").option("kafka.bootstrap.servers", servers)
        queries.finish(copy.option("topic", "copied"), folder / "copied")
        for topic in ("out", "copied"):
            found = semel.read(topic, bootstrap_servers=servers).column("value").to_pylist()
            say(topic, found)
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
