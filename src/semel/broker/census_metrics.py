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

    counted, latest = census.latest, census.latest.shown
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
    for labels, its in sorted(latest.lags[:shown_max]):
        lag.add_metric(list(labels), its.record_count)
        seconds.add_metric(list(labels), its.seconds)
    yield lag
    yield seconds
    yield gauge(
        "semel_group_lag_all",
        "As semel_group_lag, of all groups and topics.",
        latest.lag_sum,
    )
    groups = GaugeMetricFamily(
        "semel_groups", "Groups that this broker coordinates, by state.", labels=["state"]
    )
    for state in sorted({*GROUP_STATES, *counted.groups}):
        groups.add_metric([state], counted.groups[state])
    yield groups
    transactional_ids = GaugeMetricFamily(
        "semel_transactional_ids",
        "Transactional ids that this broker coordinates, by the state of their transaction.",
        labels=["state"],
    )
    for state in (each.label for each in Status if each is not Status.DEAD):
        transactional_ids.add_metric([state], counted.transactional_ids[state])
    yield transactional_ids
    yield from _held_back(census, shown_max)
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


def _held_back(census: "Census", shown_max: int) -> Iterator["Metric"]:
    from prometheus_client.core import GaugeMetricFamily

    latest = census.latest
    yield gauge(
        "semel_transaction_age_seconds_max",
        "Age of the transaction that has been open for longest, of those that were when they were "
        "last counted.",
        census.age_s(latest.oldest_open_ms),
    )
    yield gauge(
        "semel_last_stable_offset_lag_max",
        "Offsets between the end and where read_committed readers stop, at most, as open "
        "transactions were last counted.",
        latest.shown.held_back_max,
    )
    by_topic = GaugeMetricFamily(
        "semel_last_stable_offset_lag",
        "As semel_last_stable_offset_lag_max, of the topics where it is not 0: the "
        "metrics.labels.max largest.",
        labels=["topic"],
    )
    for name, lag in sorted(latest.shown.held_back[:shown_max]):
        by_topic.add_metric([name], lag)
    yield by_topic
