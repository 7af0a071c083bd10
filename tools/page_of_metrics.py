"""The parts of docs/metrics.md that tell what a broker shows, and which alerts there are."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_alerts import alerts

from semel.broker.broker import Broker, Shared, Storage
from semel.broker.census import Census
from semel.broker.config import BrokerConfig
from semel.broker.metrics import Collector
from semel.journal.seam import Limits
from semel.store.counting import Counting
from semel.world import SystemClock, SystemRandomness

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class Section(NamedTuple):
    title: str
    names: str
    """What its metrics match."""


SECTIONS: Final = (
    Section(
        "Requests and connections", r"^(request|connection|batches_|producers_fenced|loop_late)"
    ),
    Section("Topics", r"topic|partitions|bytes_in|bytes_out|records_in|last_stable_offset"),
    Section("Groups", r"group|census"),
    Section("Transactions", r"transaction|commit_latency"),
    Section("Journal", r"journal|^term$|writes_refused"),
    Section(
        "Disk, retention and compaction", r"disk|folder|volume|retention|removed|settling|comp"
    ),
    Section(
        "Cluster on a store",
        r"leader|takeover|step_down|standby|lane|slot|barrier|cache",
    ),
    Section("The store", r"store"),
    Section("Sign-ins, rights and quotas", r""),
)


class CountedStore:
    """Of which nothing was asked yet."""

    def __init__(self) -> None:
        self.counted: list[Counting] = []
        self.retry_count = 0


def families() -> "list[Metric]":
    """All that a broker can show, in a cluster on a store."""
    shared = Shared(b"", Limits(2**26, ""), 1.0, store=CountedStore())
    broker = Broker(
        BrokerConfig(),
        (),
        Storage("", lambda: (0, 0)),
        SystemClock(),
        SystemRandomness(),
        shared,
    )
    broker.census = Census(broker)
    return list(Collector(broker).collect())


def by_section() -> "Iterator[tuple[str, list[Metric]]]":
    rest = sorted(families(), key=lambda family: family.name)
    for section in SECTIONS:
        own = [each for each in rest if re.search(section.names, each.name.removeprefix("semel_"))]
        rest = [each for each in rest if each not in own]
        if own:
            yield section.title, own
    assert not rest, [each.name for each in rest]


def shown_name(family: "Metric") -> str:
    """As one asks for it."""
    return f"{family.name}_total" if family.type == "counter" else family.name


def label_names(family: "Metric") -> tuple[str, ...]:
    return tuple(getattr(family, "_labelnames", ()))


def metrics_part() -> str:
    lines = []
    for title, found in by_section():
        lines.append(f"\n### {title}\n\n| metric | kind | |\n|---|---|---|\n")
        for family in found:
            labels = ", ".join(label_names(family))
            name = f"`{shown_name(family)}`" + (f" by {labels}" if labels else "")
            lines.append(f"| {name} | {family.type} | {family.documentation} |\n")
    return "".join(lines)


def alerts_part() -> str:
    rows = [f"| {each.name} ({each.severity}) | {each.about} |\n" for each in alerts()]
    return "".join(["\n| alert | when, and what to do |\n|---|---|\n", *rows])
