"""`semel cluster status`: who leads, who stands by and how far behind, and what it costs."""

import base64
from typing import TYPE_CHECKING, Any

from semel.cli.arguments import DEFAULT_NODES, NodeArguments
from semel.cli.cluster import Ephemeral, JournalUrl, StoreOptions, StoreUrl
from semel.cli.output import Cell, note, say, say_fields, say_json, say_table
from semel.cli.steering import AsJson, with_cluster
from semel.cli.times import duration_in_words, moment_in_words
from semel.world import SystemClock

if TYPE_CHECKING:
    from semel.cluster.messages import Described, LaneStatus, NodeStatus, Rates
    from semel.cluster.outside import Outside

PATIENCE_S = 10.0
UNITS = ("B", "kB", "MB", "GB")


def status(
    *,
    store: StoreUrl,
    store_option: StoreOptions = (),
    journal: JournalUrl = None,
    ephemeral: Ephemeral = False,
    nodes: NodeArguments = DEFAULT_NODES,
    as_json: AsJson = False,
) -> int:
    """Show who leads, who stands by and how far behind, and what the store costs.

    The exit code is 1 if the leader does not answer; what the store says of it is shown then.
    """
    from semel.cluster.format import ClusterRefused
    from semel.cluster.messages import Describe, Described
    from semel.cluster.opening import ClusterSettings

    settings = ClusterSettings.of(store, store_option, journal, is_ephemeral=ephemeral)

    async def look(cluster: "Outside") -> int:
        try:
            described = await cluster.ask_leader(Describe(), PATIENCE_S)
        except ClusterRefused as refused:
            _say_what_is_stored(cluster, str(refused), as_json)
            return 1
        assert isinstance(described, Described)
        if as_json:
            say_json({"cluster_id": _in_words(cluster.cluster_id), **_in_json(described)})
        else:
            _say(cluster, described)
        return 0

    return with_cluster(settings, nodes, look)


def _in_words(cluster_id: bytes) -> str:
    return base64.urlsafe_b64encode(cluster_id).decode().rstrip("=")


def _led_since_ms(described: "Described") -> int:
    return SystemClock().wall_ms() - round(described.led_s * 1000)


# Text


def _say(cluster: "Outside", described: "Described") -> None:
    leader = next(node for node in described.nodes if node.node_id == described.node_id)
    since = moment_in_words(_led_since_ms(described))[:19]
    lasted = duration_in_words(round(described.led_s * 1000))
    rates = _sum(described)
    say_fields(
        {
            "cluster": _in_words(cluster.cluster_id),
            "leader": f"node {leader.node_id} at {leader.host}:{leader.port}, epoch "
            f"{described.epoch}, term {described.term}",
            "since": f"{since} UTC, for {lasted}",
            "detection": duration_in_words(round(described.detection_s * 1000)),
            "level": _level(described),
            "next slot": described.slot,
            "store": f"{rates.puts:.2f} PUT/s, {rates.gets:.2f} GET/s, {rates.lists:.2f} LIST/s; "
            f"{_bytes(rates.bytes_written)}/s written, {_bytes(rates.bytes_read)}/s read",
            "cost": f"${rates.month_usd:.2f} a month, by store.prices",
        }
    )
    if described.lanes:
        say("")
        say_table(
            ("LANE", "NODE", "STATE", "EPOCH", "TERM", "NEXT-SLOT", "PUT/S", "WRITTEN/S"),
            [_lane_row(lane) for lane in described.lanes],
        )
    say("")
    rows = [_row(node, described) for node in described.nodes]
    say_table(
        ("NODE", "ADDRESS", "STATE", "HEARD", "SLOTS-BEHIND", "PUT/S", "GET/S", "VERSION"), rows
    )


def _lane_row(lane: "LaneStatus") -> tuple[Cell, ...]:
    is_led = lane.node_id is not None
    return (
        lane.lane,
        lane.node_id,
        _lane_state(lane),
        lane.epoch if lane.epoch >= 0 else None,
        lane.term if is_led else None,
        lane.slot if is_led else None,
        f"{lane.puts:.2f}" if is_led and lane.lane else None,
        f"{_bytes(lane.bytes_written)}" if is_led and lane.lane else None,
    )


def _lane_state(lane: "LaneStatus") -> str:
    if lane.trouble:
        return f"cannot be led: {lane.trouble}"
    if lane.node_id is None:
        return "nobody leads" if lane.placed is None else f"goes to node {lane.placed}"
    if lane.placed is not None and lane.placed != lane.node_id:
        return f"moves to node {lane.placed}"
    return "led, by hand" if lane.is_pinned else "led"


def _lane_in_json(lane: "LaneStatus") -> dict[str, Any]:
    return {
        "lane": lane.lane,
        "node": lane.node_id,
        "state": _lane_state(lane),
        "epoch": lane.epoch,
        "term": lane.term,
        "next_slot": lane.slot,
        "placed": lane.placed,
        "by_hand": lane.is_pinned,
        "puts_per_s": lane.puts,
        "bytes_written_per_s": lane.bytes_written,
    }


def _level(described: "Described") -> str:
    """What is written, and what could be."""
    known = min(node.levels[1] for node in described.nodes)
    if known <= described.level:
        return str(described.level)
    return f"{described.level}; all nodes know {known}, which `semel cluster upgrade` makes final"


def _row(node: "NodeStatus", described: "Described") -> tuple[Cell, ...]:
    rates = node.about.rates
    heard = None if node.heard_s is None else f"{duration_in_words(round(node.heard_s * 1000))} ago"
    return (
        node.node_id,
        f"{node.host}:{node.port}",
        _state(node, described),
        heard,
        None if node.node_id == described.node_id else node.slots_behind,
        f"{rates.puts:.2f}",
        f"{rates.gets:.2f}",
        node.about.version,
    )


def _state(node: "NodeStatus", described: "Described") -> str:
    if node.node_id == described.node_id:
        return "leads"
    if node.is_drained:
        return "drained"
    return "not heard yet" if node.heard_s is None else "stands by"


def _sum(described: "Described") -> "Rates":
    from semel.cluster.messages import Rates

    each = [node.about.rates for node in described.nodes]
    return Rates(
        sum(rates.puts for rates in each),
        sum(rates.gets for rates in each),
        sum(rates.lists for rates in each),
        sum(rates.bytes_written for rates in each),
        sum(rates.bytes_read for rates in each),
        sum(rates.month_usd for rates in each),
    )


def _bytes(count: float) -> str:
    for unit in UNITS[:-1]:
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} {UNITS[-1]}"


# JSON


def _in_json(described: "Described") -> dict[str, Any]:
    return {
        "leader": described.node_id,
        "epoch": described.epoch,
        "term": described.term,
        "led_since_ms": _led_since_ms(described),
        "detection_ms": round(described.detection_s * 1000),
        "level": described.level,
        "next_slot": described.slot,
        "store": _rates_in_json(_sum(described)),
        "lanes": [_lane_in_json(lane) for lane in described.lanes],
        "nodes": [
            {
                "node": node.node_id,
                "host": node.host,
                "port": node.port,
                "state": _state(node, described),
                "heard_ms_ago": None if node.heard_s is None else round(node.heard_s * 1000),
                "slots_behind": node.slots_behind,
                "version": node.about.version,
                "levels": list(node.levels),
                "store": _rates_in_json(node.about.rates),
            }
            for node in described.nodes
        ],
    }


def _rates_in_json(rates: "Rates") -> dict[str, float]:
    return {
        "puts_per_s": rates.puts,
        "gets_per_s": rates.gets,
        "lists_per_s": rates.lists,
        "bytes_written_per_s": rates.bytes_written,
        "bytes_read_per_s": rates.bytes_read,
        "usd_per_month": rates.month_usd,
    }


# Without the leader


def _say_what_is_stored(cluster: "Outside", reason: str, as_json: bool) -> None:
    led_by = cluster.led_by
    nodes = [] if led_by is None else [(led_by.address, "led last")]
    nodes += [(node, "stood by") for node in cluster.standing_by]
    if as_json:
        told = [
            {"node": node.node_id, "host": node.host, "port": node.port, "state": state}
            for node, state in nodes
        ]
        cluster_id = _in_words(cluster.cluster_id)
        say_json({"cluster_id": cluster_id, "leader": None, "error": reason, "nodes": told})
        return
    note(reason)
    say_fields({"cluster": _in_words(cluster.cluster_id), "leader": None})
    if nodes:
        say("")
        say_table(
            ("NODE", "ADDRESS", "STATE"),
            [(node.node_id, f"{node.host}:{node.port}", state) for node, state in nodes],
        )
