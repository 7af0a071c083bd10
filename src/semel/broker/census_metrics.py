"""How far groups are behind, and what there is in each state, as the last census has found it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from semel.broker.families import counter, gauge, histogram
from semel.transactions.transaction import Status

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from semel.broker.census import Census

GROUP_STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")
"""Shown also if no group is in them."""


def census_metrics(census: "Census", shown_max: int) -> Iterator["Metric"]:
    from prometheus_client.core import GaugeMetricFamily

    latest = census.latest
    lag = GaugeMetricFamily(
        "semel_group_lag",
        "Offsets between what a group has committed and the ends of a topic's partitions; the "
        "metrics.labels.max largest. Shown by who coordinates the group.",
        labels=["group", "topic"],
    )
    seconds = GaugeMetricFamily(
        "semel_group_lag_seconds",
        "The age of the oldest batch of a topic that a group has not committed, by its producer's "
        "clock; 0 if it has all.",
        labels=["group", "topic"],
    )
    by_lag = sorted(latest.lags.items(), key=lambda each: -each[1].record_count)
    for labels, its in sorted(by_lag[:shown_max]):
        lag.add_metric(list(labels), its.record_count)
        seconds.add_metric(list(labels), its.seconds)
    yield lag
    yield seconds
    yield gauge(
        "semel_group_lag_all",
        "As semel_group_lag, of all groups and topics.",
        sum(each.record_count for each in latest.lags.values()),
    )
    groups = GaugeMetricFamily(
        "semel_groups", "Groups that this broker coordinates, by state.", labels=["state"]
    )
    for state in sorted({*GROUP_STATES, *latest.groups}):
        groups.add_metric([state], latest.groups[state])
    yield groups
    transactional_ids = GaugeMetricFamily(
        "semel_transactional_ids",
        "Transactional ids that this broker coordinates, by the state of their transaction.",
        labels=["state"],
    )
    for state in (each.label for each in Status if each is not Status.DEAD):
        transactional_ids.add_metric([state], latest.transactional_ids[state])
    yield transactional_ids
    yield counter(
        "semel_census_rounds",
        "How often groups, their lags and transactional ids were counted: every "
        "metrics.interval.ms.",
        census.round_count,
    )
    yield histogram(
        "semel_loop_late_seconds",
        "How late timers of the broker's loop were, four a second: as long as that, who sends "
        "something waits before it is read.",
        census.lateness,
    )
