"""What a node shows of its cluster and of the store: who leads, what is asked, what it costs."""

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from semel.broker.families import counter, gauge
from semel.broker.led_lanes import CONTROLLER
from semel.cluster.messages import Rates
from semel.store.counting import LATENCY_BOUNDS_S, Counted, Counting, Usage
from semel.store.prices import PriceList
from semel.store.settings import POSTGRESQL

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from semel.broker.broker import Broker
    from semel.journal.slots.journal import SlotJournal

NOBODY: Final = -1


class StoreRate(NamedTuple):
    """What is asked of one store at present."""

    store: str
    usage: Usage
    elapsed_s: float
    month_usd: float
    """What a month costs that goes on so, with what is kept there."""


def journals_on_store(broker: "Broker") -> "list[SlotJournal]":
    return [cast("SlotJournal", each) for each in list(broker.leading.journals_on_store.values())]


def stored_bytes(broker: "Broker", store: Counting) -> int:
    """Bytes in the store of the lanes that this node leads. Each node counts its own alone, so that
    none is counted twice."""
    slots = sum(journal.counts.stored_bytes for journal in journals_on_store(broker))
    volumes = sum(lane.settling.volume_bytes for lane in broker.lanes.led)
    return (slots if store.has_slots else 0) + (volumes if store.has_volumes else 0)


def store_rates(broker: "Broker", store: Counted) -> list[StoreRate]:
    prices = PriceList.parse(broker.config.store_prices)
    rates = []
    for each in store.counted:
        usage, elapsed_s = each.recent()
        # A database is paid for whether it is asked or not.
        is_priced = each.name != POSTGRESQL
        kept_bytes = stored_bytes(broker, each)
        month_usd = prices.month_usd(usage, elapsed_s, kept_bytes) if is_priced else 0.0
        rates.append(StoreRate(each.name, usage, elapsed_s, month_usd))
    return rates


def rates(broker: "Broker") -> Rates:
    """Of all stores together, as other nodes are told."""
    if broker.store is None:
        return Rates()
    found = [each for each in store_rates(broker, broker.store) if each.elapsed_s]
    return Rates(
        sum(each.usage.puts / each.elapsed_s for each in found),
        sum(each.usage.gets / each.elapsed_s for each in found),
        sum(each.usage.lists / each.elapsed_s for each in found),
        sum(each.usage.bytes_written / each.elapsed_s for each in found),
        sum(each.usage.bytes_read / each.elapsed_s for each in found),
        sum(each.month_usd for each in found),
    )


def cluster_metrics(broker: "Broker") -> Iterator["Metric"]:
    yield from _leadership(broker)
    yield from _lanes(broker)
    yield from _slots(journals_on_store(broker))
    if broker.store is not None:
        yield from _requests(broker.store)
        yield from _cost(broker, broker.store)


def _leadership(broker: "Broker") -> Iterator["Metric"]:
    from prometheus_client.core import CounterMetricFamily

    lane_0 = broker.lanes.by_number.get(CONTROLLER)
    led_by = broker.elsewhere.led_by
    epoch = NOBODY if led_by is None else led_by.epoch
    yield gauge(
        "semel_is_leader", "1 if this node leads lane 0, 0 if it stands by.", lane_0 is not None
    )
    yield gauge(
        "semel_leader_node",
        "The node that leads lane 0, as far as this one knows; -1: it knows of none.",
        broker.nodes.controller_id,
    )
    yield gauge(
        "semel_leader_epoch",
        "The epoch of the leader of lane 0; -1 if there is none.",
        epoch if lane_0 is None else lane_0.view.epoch,
    )
    takeovers = CounterMetricFamily(
        "semel_takeovers",
        "How often this node began to lead: handed over, or after a leader that did not say so.",
        labels=["how"],
    )
    for is_in_doubt, how in ((False, "handover"), (True, "silence")):
        takeovers.add_metric([how], broker.metrics.takeovers[is_in_doubt])
    yield takeovers
    yield counter(
        "semel_step_downs",
        "How often this node has led and found that others do, or that it cannot know.",
        broker.metrics.step_downs,
    )
    caught_up_s = broker.elsewhere.caught_up_s
    behind_s = 0.0 if caught_up_s is None else max(0.0, broker.loop_time_s - caught_up_s)
    yield gauge(
        "semel_standby_lag_seconds",
        "For how long who stands by has not read all there is in the store; 0 for a leader.",
        behind_s if lane_0 is None else 0.0,
    )


def _lanes(broker: "Broker") -> Iterator["Metric"]:
    """Those that this node leads, each by its number."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    led = [
        (str(lane.number), cast("SlotJournal", journal))
        for lane in broker.lanes.led
        if (journal := broker.leading.journals_on_store.get(lane.number)) is not None
    ]
    slot = GaugeMetricFamily(
        "semel_lane_next_slot", "The slot of a lane that this node writes next.", labels=["lane"]
    )
    puts = CounterMetricFamily(
        "semel_lane_puts",
        "Slots of a lane that this node has begun since it leads it.",
        labels=["lane"],
    )
    for number, journal in led:
        slot.add_metric([number], journal.slot)
        puts.add_metric([number], journal.puts)
    yield from (slot, puts)


def _slots(journals: "list[SlotJournal]") -> Iterator["Metric"]:
    """Of the lanes that this node leads, since it does."""
    from prometheus_client.core import SummaryMetricFamily

    counts = [journal.counts for journal in journals]
    yield gauge(
        "semel_slots",
        "Slots in the store that hold data.",
        sum(each.slot_count for each in counts),
    )
    yield gauge(
        "semel_oldest_slot",
        "The oldest slot that holds data; -1 for who stands by.",
        min((each.oldest_slot for each in counts), default=NOBODY),
    )
    yield gauge(
        "semel_newest_slot",
        "The slot that is written next; -1 for who stands by.",
        max((journal.slot for journal in journals), default=NOBODY),
    )
    yield gauge(
        "semel_slot_bytes",
        "Bytes in the slots that hold data.",
        sum(each.stored_bytes for each in counts),
    )
    yield SummaryMetricFamily(
        "semel_barrier_seconds",
        "Waits until the store has told that nobody else leads, before something is said.",
        count_value=sum(each.barriers_passed for each in counts),
        sum_value=sum(each.barriers_waited_s for each in counts),
    )
    yield gauge(
        "semel_barriers_waiting",
        "Answers that wait until the store has told that nobody else leads.",
        sum(each.barriers_waiting for each in counts),
    )
    yield counter(
        "semel_cache_hits",
        "Reads of older data that needed no request.",
        sum(each.cache_hits for each in counts),
    )
    yield counter(
        "semel_cache_misses",
        "Reads of older data that needed a request.",
        sum(each.cache_misses for each in counts),
    )


def _requests(store: Counted) -> Iterator["Metric"]:
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    requests = CounterMetricFamily(
        "semel_store_requests", "Requests to the store, as they are paid.", labels=["store", "verb"]
    )
    moved = CounterMetricFamily(
        "semel_store_bytes", "Bytes sent to and read from the store.", labels=["store", "way"]
    )
    errors = CounterMetricFamily(
        "semel_store_errors",
        "Calls that failed: throttled, away, refused, or unanswered in their time.",
        labels=["store", "verb", "kind"],
    )
    durations = HistogramMetricFamily(
        "semel_store_request_seconds",
        "How long calls took that were answered.",
        labels=["store", "verb"],
    )
    bounds = [*map(str, LATENCY_BOUNDS_S), "+Inf"]
    for each in store.counted:
        usage, name = each.usage, each.name
        for verb, count in (
            ("put", usage.puts),
            ("get", usage.gets),
            ("list", usage.lists),
            ("delete", usage.deletes),
        ):
            requests.add_metric([name, verb], count)
        moved.add_metric([name, "written"], usage.bytes_written)
        moved.add_metric([name, "read"], usage.bytes_read)
        for (verb, kind), count in sorted(each.errors.copy().items()):
            errors.add_metric([name, verb, kind], count)
        for verb, took in each.latencies.items():
            counted = list(zip(bounds, accumulate(took.counts), strict=True))
            durations.add_metric([name, verb], counted, took.sum_s)
    yield requests
    yield moved
    yield errors
    yield durations
    yield counter(
        "semel_store_retries",
        "Reads, lists and deletes that were asked again.",
        store.retry_count,
    )
    yield counter(
        "semel_store_throttled",
        "Calls that the store has turned away, as too much was asked of it.",
        sum(
            count
            for each in store.counted
            for (_, kind), count in each.errors.copy().items()
            if kind == "throttled"
        ),
    )


def _cost(broker: "Broker", store: Counted) -> Iterator["Metric"]:
    from prometheus_client.core import GaugeMetricFamily

    cost = GaugeMetricFamily(
        "semel_store_month_usd",
        "What a month costs by store.prices that goes on as the last minute went, with what is "
        "kept, which the leader counts.",
        labels=["store"],
    )
    for each in store_rates(broker, store):
        cost.add_metric([each.store], each.month_usd)
    yield cost
