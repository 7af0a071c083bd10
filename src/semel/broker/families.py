"""Metrics of one value, as Prometheus takes them, and of how long things took."""

from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from semel.durations import BOUNDS_S, Durations

if TYPE_CHECKING:
    from prometheus_client.core import HistogramMetricFamily, Metric

_BOUNDS: Final = (*(f"{bound:.6f}" for bound in BOUNDS_S), "+Inf")


def counter(name: str, about: str, value: float) -> "Metric":
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(name, about)
    family.add_metric([], value)
    return family


def gauge(name: str, about: str, value: float) -> "Metric":
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(name, about)
    family.add_metric([], value)
    return family


def histogram(name: str, about: str, durations: Durations) -> "Metric":
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(name, about)
    add_durations(family, [], durations)
    return family


def add_durations(family: "HistogramMetricFamily", labels: list[str], durations: Durations) -> None:
    # The sum first: the counts may only be ahead of it.
    sum_s = durations.sum_s
    counted = list(zip(_BOUNDS, accumulate(durations.by_bound), strict=True))
    family.add_metric(labels, counted, sum_s)


def together(several: Iterable[Durations]) -> Durations:
    total = Durations()
    for each in several:
        total.add_all(each)
    return total
