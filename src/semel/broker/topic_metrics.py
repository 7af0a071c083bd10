"""What there is of each topic, and what was written to and read from it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from semel.broker.families import gauge

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from semel.broker.census import Census
    from semel.broker.metrics import Metrics


def topic_metrics(
    metrics: "Metrics", census: "Census | None", shown_max: int
) -> Iterator["Metric"]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

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
    for each in sorted(metrics.largest_topics[:shown_max]):
        stored.add_metric([each.name], each.byte_count)
        records.add_metric([each.name], each.record_count)
    yield stored
    yield records
    yield gauge(
        "semel_topic_bytes_all",
        "As semel_topic_bytes, of all topics: only the metrics.labels.max largest are shown each.",
        metrics.topic_bytes_sum,
    )
    bytes_in = CounterMetricFamily(
        "semel_topic_bytes_in",
        "Bytes of batches that were stored, by topic: if there are more than metrics.labels.max, "
        "the busiest of the last census.",
        labels=["topic"],
    )
    records_in = CounterMetricFamily(
        "semel_topic_records_in", "Records that were stored, by topic.", labels=["topic"]
    )
    bytes_out = CounterMetricFamily(
        "semel_topic_bytes_out", "Bytes of batches that were fetched, by topic.", labels=["topic"]
    )
    topics = metrics.topics
    # Others may come and go meanwhile: this is read in a thread.
    if census is None or len(topics) <= shown_max:
        shown = list(topics)
    else:
        shown = list(census.latest.shown.busiest[:shown_max])
    for name in sorted(shown):
        counts = topics.get(name)
        if counts is None:
            continue
        bytes_in.add_metric([name], counts.bytes_in)
        records_in.add_metric([name], counts.records_in)
        bytes_out.add_metric([name], counts.bytes_out)
    yield from (bytes_in, records_in, bytes_out)
