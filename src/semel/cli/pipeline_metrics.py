"""The exactly-once queries of a cluster as metrics for Prometheus, with a page of health."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from semel.spark.pipelines import Pipeline
from semel.status_server import Page, Pages, health_page, metrics_page

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_MS_PER_S = 1000


class LastLook:
    """What was seen last, or why nothing could be seen."""

    def __init__(self) -> None:
        self.pipelines: Sequence[Pipeline] = ()
        self.now_ms = 0
        self.trouble: str | None = "it has not looked yet"

    def seen(self, pipelines: Sequence[Pipeline], now_ms: int) -> None:
        self.pipelines, self.now_ms, self.trouble = pipelines, now_ms, None

    def pages(self) -> Pages:
        """`/metrics`; `/healthz` and `/readyz` are 503 while the cluster cannot be asked."""

        def metrics(body: bytes) -> Page:
            return metrics_page(pipeline_metrics(self.pipelines, self.now_ms, self.trouble))

        def health(body: bytes) -> Page:
            return health_page([] if self.trouble is None else [self.trouble])

        return {
            ("GET", "/metrics"): metrics,
            ("GET", "/healthz"): health,
            ("GET", "/readyz"): health,
        }


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / _MS_PER_S


_GAUGES: dict[str, tuple[str, Callable[[Pipeline, int], float | None]]] = {
    "batch": ("The id of the last batch.", lambda one, now_ms: one.marker.batch_id),
    "last_commit_timestamp_seconds": (
        "When the last batch was committed.",
        lambda one, now_ms: _seconds(one.marker.written.at_ms or None),
    ),
    "batch_rows": ("Rows of the last batch.", lambda one, now_ms: one.marker.written.rows),
    "batch_bytes": ("Bytes of the last batch.", lambda one, now_ms: one.marker.written.size),
    "batch_seconds": (
        "How long it took to write the last batch.",
        lambda one, now_ms: _seconds(one.marker.written.took_ms),
    ),
    "rows_per_second": ("Of the last batch.", lambda one, now_ms: one.rows_per_s),
    "lag_records": ("Offsets that wait to be written.", lambda one, now_ms: one.lag),
    "behind_seconds": (
        "The age of the first record that is not written.",
        lambda one, now_ms: _seconds(one.behind_ms(now_ms)),
    ),
}


def pipeline_metrics(
    pipelines: Sequence[Pipeline], now_ms: int, trouble: str | None
) -> "Iterator[Metric]":
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    for name, (about, value_of) in _GAUGES.items():
        family = GaugeMetricFamily(f"semel_pipeline_{name}", about, labels=["name", "group"])
        for each in pipelines:
            value = value_of(each, now_ms)
            if value is not None:
                family.add_metric([each.name, each.group], value)
        yield family
    skipped = CounterMetricFamily(
        "semel_pipeline_skipped_batches",
        "Batches that were found written when a query wrote them again.",
        labels=["name", "group"],
    )
    for each in pipelines:
        skipped.add_metric([each.name, each.group], each.marker.written.skipped)
    yield skipped
    up = GaugeMetricFamily("semel_pipeline_up", "Whether the cluster could be asked.")
    up.add_metric([], float(trouble is None))
    yield up
