"""What there is of each topic, and what was written to and read from it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from semel.broker.families import gauge, largest

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from semel.broker.metrics import Metrics


def topic_metrics(metrics: "Metrics", shown_max: int) -> Iterator["Metric"]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    byte_counts, record_counts = metrics.topic_bytes, metrics.topic_records
    stored = GaugeMetricFamily(
        "semel_topic_bytes",
        "Bytes of the batches that a topic shows, as of the last round of retention.",
        labels=["topic"],
    )
    records = GaugeMetricFamily(
        "semel_topic_records",
        "Offsets from the starts to the ends of its partitions, as of then: records, markers of "
        "transactions, and what compaction has left out.",
        labels=["topic"],
    )
    for name, byte_count in largest(byte_counts, shown_max):
        stored.add_metric([name], byte_count)
        records.add_metric([name], record_counts.get(name, 0))
    yield stored
    yield records
    yield gauge(
        "semel_topic_bytes_all",
        "As semel_topic_bytes, of all topics: only the metrics.labels.max largest are shown each.",
        sum(byte_counts.values()),
    )
    bytes_in = CounterMetricFamily(
        "semel_topic_bytes_in",
        "Bytes of batches that were stored, by topic: the metrics.labels.max busiest.",
        labels=["topic"],
    )
    records_in = CounterMetricFamily(
        "semel_topic_records_in", "Records that were stored, by topic.", labels=["topic"]
    )
    bytes_out = CounterMetricFamily(
        "semel_topic_bytes_out", "Bytes of batches that were fetched, by topic.", labels=["topic"]
    )
    counted = dict(list(metrics.topics.items()))
    busy = {name: counts.bytes_in + counts.bytes_out for name, counts in counted.items()}
    for name, _ in largest(busy, shown_max):
        counts = counted[name]
        bytes_in.add_metric([name], counts.bytes_in)
        records_in.add_metric([name], counts.records_in)
        bytes_out.add_metric([name], counts.bytes_out)
    yield from (bytes_in, records_in, bytes_out)
