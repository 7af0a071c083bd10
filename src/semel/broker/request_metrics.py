"""How long requests took."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from semel.broker.families import add_durations
from semel.wire import apis

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from semel.broker.metrics import Metrics


def request_metrics(metrics: "Metrics") -> Iterator["Metric"]:
    from prometheus_client.core import HistogramMetricFamily, SummaryMetricFamily

    latencies = HistogramMetricFamily(
        "semel_request_seconds",
        "From when a request was read until its reply was handed to the kernel, by API; with what "
        "a fetch waited for records, and a member for its group.",
        labels=["api"],
    )
    for key, durations in sorted(metrics.latencies.items()):
        api = apis.lookup(key)
        add_durations(latencies, [api.name if api else str(key)], durations)
    yield latencies
    yield SummaryMetricFamily(
        "semel_request_queue_seconds",
        "Of semel_request_seconds, until a request was decided: it stood behind others of its "
        "connection, or its client did not read what it was sent.",
        count_value=sum(list(metrics.requests.values())),
        sum_value=metrics.queue_seconds,
    )
