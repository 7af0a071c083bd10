"""The usual way to write a stream to Kafka, for comparison: each task has a plain producer.

Spark's own Kafka sink works like this: what a task has sent stays, whatever becomes of the batch.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from confluent_kafka import Producer
from pyspark.sql import DataFrame, Row

Transform = Callable[[DataFrame, int], dict[str, DataFrame]]


class Sending(NamedTuple):
    bootstrap_servers: str
    topic: str

    def __call__(self, rows: Iterable[Row]) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "enable.idempotence": True,
                "log_level": 0,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
            }
        )
        for row in rows:
            producer.produce(self.topic, key=row["key"], value=row["value"])
            producer.poll(0)
        producer.flush()


def at_least_once(transform: Transform, bootstrap_servers: str) -> Callable[[DataFrame, int], None]:
    def write(batch: DataFrame, batch_id: int) -> None:
        for topic, frame in transform(batch, batch_id).items():
            frame.foreachPartition(Sending(bootstrap_servers, topic).__call__)

    return write
