"""The dashboard for Grafana, made of the few things in which its panels differ."""

import json
from typing import Any, Final, NamedTuple

WIDTH: Final = 8
HEIGHT: Final = 8
COLUMNS: Final = 3
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
CHOSEN: Final = '{job=~"$job",instance=~"$instance"}'


class Line(NamedTuple):
    query: str
    """`{}` stands for what was chosen above the panels."""
    legend: str


class Panel(NamedTuple):
    title: str
    unit: str
    lines: tuple[Line, ...]
    about: str = ""


def rate(metric: str, legend: str, by: str = "") -> Line:
    summed = f"sum by ({by})" if by else "sum"
    return Line(f"{summed} (rate({metric}{{}}[$__rate_interval]))", legend)


def total(metric: str, legend: str, by: str = "") -> Line:
    summed = f"sum by ({by})" if by else "sum"
    return Line(f"{summed} ({metric}{{}})", legend)


def top(query: str, legend: str) -> Line:
    return Line(f"topk(10, {query})", legend)


def quantile(share: float, metric: str, legend: str, by: str = "") -> Line:
    labels = f"le, {by}" if by else "le"
    buckets = f"sum by ({labels}) (rate({metric}_bucket{{}}[$__rate_interval]))"
    return Line(f"histogram_quantile({share}, {buckets})", legend)


ROWS: Final[dict[str, tuple[Panel, ...]]] = {
    "Traffic": (
        Panel(
            "Bytes each second",
            "Bps",
            (rate("semel_bytes_in_total", "in"), rate("semel_bytes_out_total", "out")),
        ),
        Panel("Records stored each second", "cps", (rate("semel_records_in_total", "records"),)),
        Panel("Requests each second", "reqps", (rate("semel_requests_total", "{{api}}", "api"),)),
        Panel(
            "Bytes into the busiest topics",
            "Bps",
            (
                top(
                    "sum by (topic) (rate(semel_topic_bytes_in_total{}[$__rate_interval]))",
                    "{{topic}}",
                ),
            ),
        ),
        Panel(
            "Bytes out of the busiest topics",
            "Bps",
            (
                top(
                    "sum by (topic) (rate(semel_topic_bytes_out_total{}[$__rate_interval]))",
                    "{{topic}}",
                ),
            ),
        ),
        Panel("Connections", "short", (total("semel_connections", "{{instance}}", "instance"),)),
    ),
    "How long it takes": (
        Panel(
            "Requests, 99th percentile",
            "s",
            (quantile(0.99, "semel_request_seconds", "{{api}}", "api"),),
            "From when a request was read until its reply was handed to the kernel. A fetch waits "
            "for records, as long as its client asks.",
        ),
        Panel(
            "Syncs of the journal",
            "s",
            (
                quantile(0.5, "semel_journal_sync_seconds", "50 %"),
                quantile(0.99, "semel_journal_sync_seconds", "99 %"),
            ),
            "A disk that is slow shows here.",
        ),
        Panel(
            "How late the loop is",
            "s",
            (quantile(0.9, "semel_loop_late_seconds", "{{instance}}", "instance"),),
            "A process that uses its core to the full shows here.",
        ),
        Panel(
            "Waited for earlier requests",
            "s",
            (
                Line(
                    "sum (rate(semel_request_queue_seconds_sum{}[$__rate_interval])) / "
                    "sum (rate(semel_request_queue_seconds_count{}[$__rate_interval]))",
                    "of each request",
                ),
            ),
        ),
        Panel(
            "Commits of transactions",
            "s",
            (
                Line(
                    "sum (rate(semel_commit_latency_seconds_sum{}[$__rate_interval])) / "
                    "sum (rate(semel_commit_latency_seconds_count{}[$__rate_interval]))",
                    "on average",
                ),
            ),
        ),
        Panel(
            "Processor",
            "percentunit",
            (
                Line(
                    "rate(process_cpu_seconds_total{}[$__rate_interval])",
                    "{{instance}}",
                ),
            ),
            "A process uses one core at most.",
        ),
    ),
    "Groups and transactions": (
        Panel(
            "Lag of groups, in records",
            "short",
            (top("sum by (group, topic) (semel_group_lag{})", "{{group}} {{topic}}"),),
        ),
        Panel(
            "Lag of groups, in time",
            "s",
            (top("max by (group, topic) (semel_group_lag_seconds{})", "{{group}} {{topic}}"),),
        ),
        Panel("Groups", "short", (total("semel_groups", "{{state}}", "state"),)),
        Panel(
            "Transactions ended each second",
            "cps",
            (rate("semel_transactions_ended_total", "{{how}}", "how"),),
        ),
        Panel(
            "Longest open transaction",
            "s",
            (Line("max (semel_transaction_age_seconds_max{})", "age"),),
        ),
        Panel(
            "Held back from read_committed",
            "short",
            (top("max by (topic) (semel_last_stable_offset_lag{})", "{{topic}}"),),
        ),
    ),
    "Disk": (
        Panel(
            "Room on the disk",
            "bytes",
            (
                Line("semel_disk_free_bytes{}", "free, {{instance}}"),
                Line("semel_folder_bytes{}", "data folder, {{instance}}"),
            ),
        ),
        Panel(
            "Largest topics",
            "bytes",
            (top("sum by (topic) (semel_topic_bytes{})", "{{topic}}"),),
            "As of the last round of retention.",
        ),
        Panel(
            "Deleted and removed each second",
            "Bps",
            (
                rate("semel_retention_deleted_bytes_total", "deleted by retention"),
                rate("semel_removed_bytes_total", "given back to the disk"),
            ),
        ),
        Panel("Writes refused", "cps", (rate("semel_writes_refused_total", "refused"),)),
        Panel("Damaged partitions", "short", (total("semel_unreadable_partitions", "partitions"),)),
        Panel(
            "Memory",
            "bytes",
            (Line("process_resident_memory_bytes{}", "{{instance}}"),),
        ),
    ),
    "Trouble": (
        Panel(
            "Refused each second",
            "cps",
            (
                rate("semel_batches_refused_total", "batches"),
                rate("semel_connections_refused_total", "connections"),
                rate("semel_requests_malformed_total", "bad requests"),
                rate("semel_producers_fenced_total", "fenced producers"),
            ),
        ),
        Panel("Errors of the broker", "cps", (rate("semel_requests_failed_total", "errors"),)),
        Panel(
            "Retries that were not stored again",
            "cps",
            (rate("semel_batches_duplicate_total", "batches"),),
        ),
    ),
    "Nodes on a store": (
        Panel("Leads lane 0", "short", (Line("semel_is_leader{}", "{{instance}}"),)),
        Panel(
            "Behind the leader",
            "s",
            (Line("semel_standby_lag_seconds{}", "{{instance}}"),),
        ),
        Panel("Takeovers", "short", (total("semel_takeovers_total", "{{how}}", "how"),)),
        Panel(
            "Requests to the store",
            "reqps",
            (rate("semel_store_requests_total", "{{store}} {{verb}}", "store, verb"),),
        ),
        Panel(
            "Calls to the store, 99th percentile",
            "s",
            (quantile(0.99, "semel_store_request_seconds", "{{verb}}", "verb"),),
        ),
        Panel("Cost of a month", "currencyUSD", (total("semel_store_month_usd", "store.prices"),)),
    ),
}


def queries() -> list[str]:
    """Of all panels, as Prometheus is asked."""
    return [
        line.query.replace("{}", CHOSEN)
        for panels in ROWS.values()
        for panel in panels
        for line in panel.lines
    ]


def dashboard() -> str:
    panels: list[dict[str, Any]] = []
    top_edge = 0
    for title, row in ROWS.items():
        place = {"h": 1, "w": WIDTH * COLUMNS, "x": 0, "y": top_edge}
        panels.append({"type": "row", "title": title, "gridPos": place, "panels": []})
        top_edge += 1
        for number, panel in enumerate(row):
            left, down = number % COLUMNS * WIDTH, number // COLUMNS * HEIGHT
            place = {"h": HEIGHT, "w": WIDTH, "x": left, "y": top_edge + down}
            panels.append(_drawn(panel, place))
        top_edge += -(-len(row) // COLUMNS) * HEIGHT
    for number, each in enumerate(panels, 1):
        each["id"] = number
    found = {
        "title": "Semel",
        "uid": "semel",
        "description": "Written by tools/generate_pages.py from tools/grafana_dashboard.py.",
        "tags": ["semel", "kafka"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": _choices()},
        "panels": panels,
    }
    return json.dumps(found, indent=2) + "\n"


def _drawn(panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": SOURCE,
                "expr": line.query.replace("{}", CHOSEN),
                "legendFormat": line.legend,
            }
            for number, line in enumerate(panel.lines)
        ],
    }


def _choices() -> list[dict[str, Any]]:
    """What is chosen above the panels."""
    found: list[dict[str, Any]] = [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    ]
    for name, query in (
        ("job", "label_values(semel_topics, job)"),
        ("instance", 'label_values(semel_topics{job=~"$job"}, instance)'),
    ):
        found.append(
            {
                "name": name,
                "type": "query",
                "datasource": SOURCE,
                "query": {"query": query, "refId": name},
                "refresh": 2,
                "multi": True,
                "includeAll": True,
                "allValue": ".*",
                "current": {"text": "All", "value": "$__all"},
            }
        )
    return found
