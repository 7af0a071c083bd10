"""Metrics of one value, as Prometheus takes them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import Metric


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
