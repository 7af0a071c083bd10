"""A running application as others watch it: metrics for Prometheus, and whether it is well."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from semel.app.progress import Counts, ListenerState
from semel.status_server import Page, Pages, health_page, metrics_page

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_COUNTERS: dict[str, tuple[str, Callable[[Counts], float]]] = {
    "records": ("Records that were worked on.", lambda each: each.records),
    "transactions_committed": (
        "Transactions that were committed.",
        lambda each: each.transactions_committed,
    ),
    "transactions_aborted": (
        "Transactions that were given up.",
        lambda each: each.transactions_aborted,
    ),
    "retries": ("Records, or batches, put off to be tried again.", lambda each: each.retries),
    "dead_letters": ("Records that were laid aside.", lambda each: each.dead_letters),
    "cycles": ("Cycles of working and delivering.", lambda each: each.cycles),
    "cycle_seconds": ("What the cycles took, in sum.", lambda each: each.cycle_seconds),
}
_GAUGES: dict[str, tuple[str, Callable[[Counts], float]]] = {
    "lag_records": ("Offsets that wait in the partitions of this process.", lambda each: each.lag),
    "partitions": ("Partitions that this process has.", lambda each: len(each.partitions)),
    "paused": (
        "1 if the listener takes no records until it is resumed.",
        lambda each: float(each.state is ListenerState.PAUSED),
    ),
}
_UNREADY = frozenset({ListenerState.JOINING, ListenerState.STOPPING, ListenerState.STOPPED})


def pages(look: Callable[[], dict[str, Counts]]) -> Pages:
    """`/metrics`, `/healthz` and `/readyz`, of the counts at each look: none before the start."""

    def metrics(body: bytes) -> Page:
        return metrics_page(app_metrics(look()))

    def health(body: bytes) -> Page:
        return health_page(ills(look()))

    def readiness(body: bytes) -> Page:
        return health_page(reasons_to_wait(look()))

    return {
        ("GET", "/metrics"): metrics,
        ("GET", "/healthz"): health,
        ("GET", "/readyz"): readiness,
    }


def ills(counts: dict[str, Counts]) -> Iterator[str]:
    """What only another start can mend."""
    for name, each in counts.items():
        if each.state is ListenerState.FAILED:
            yield f"{name}: failed"


def reasons_to_wait(counts: dict[str, Counts]) -> Iterator[str]:
    """Why it does not do its work at the moment."""
    if not counts:
        yield "it has not started yet"
    yield from ills(counts)
    for name, each in counts.items():
        if each.state in _UNREADY or each.trouble is not None:
            trouble = "" if each.trouble is None else f", {each.trouble}"
            yield f"{name}: {each.state.value}{trouble}"


def app_metrics(counts: dict[str, Counts]) -> "Iterator[Metric]":
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    for name, (about, value_of) in _COUNTERS.items():
        counter = CounterMetricFamily(f"semel_app_{name}", about, labels=["listener"])
        for listener, each in counts.items():
            counter.add_metric([listener], value_of(each))
        yield counter
    for name, (about, value_of) in _GAUGES.items():
        gauge = GaugeMetricFamily(f"semel_app_{name}", about, labels=["listener"])
        for listener, each in counts.items():
            gauge.add_metric([listener], value_of(each))
        yield gauge
    states = GaugeMetricFamily(
        "semel_app_state", "1 for the state that the listener is in.", labels=["listener", "state"]
    )
    for listener, each in counts.items():
        for state in ListenerState:
            states.add_metric([listener, state.value], float(each.state is state))
    yield states
