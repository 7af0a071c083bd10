"""Metrics of each lane that a broker leads, by its number."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from semel.broker.families import gauge
from semel.journal.seam import Journal

if TYPE_CHECKING:
    from prometheus_client import Metric

    from semel.broker.broker import Broker
    from semel.lane.lane import Lane


def lane_metrics(broker: "Broker") -> Iterator["Metric"]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    yield gauge(
        "semel_term",
        "The highest term of the lanes that are led here.",
        max((lane.view.term for lane in broker.lanes.led), default=-1),
    )
    epoch = GaugeMetricFamily(
        "semel_lane_epoch", "The leader epoch of a lane that is led here.", labels=["lane"]
    )
    term = GaugeMetricFamily(
        "semel_lane_term",
        "The term of a lane that is led here, by which epochs are spent.",
        labels=["lane"],
    )
    appended = CounterMetricFamily(
        "semel_lane_bytes",
        "Bytes that were appended to a lane since it is led here.",
        labels=["lane"],
    )
    for lane in broker.lanes.led:
        number = [str(lane.number)]
        epoch.add_metric(number, lane.view.epoch)
        term.add_metric(number, lane.view.term)
        journal = _journal(broker, lane)
        if journal is not None:
            appended.add_metric(number, journal.bytes_appended)
    yield from (epoch, term, appended)


def _journal(broker: "Broker", lane: "Lane") -> Journal | None:
    """The journal of a lane; None while it is being opened or given up."""
    on_files = broker.journals.get(lane.number)
    return broker.leading.journals_on_store.get(lane.number) if on_files is None else on_files
