"""What lies in deploy/ for other programs: it asks for metrics that there are, and fits them."""

import json
import re
from pathlib import Path
from typing import Any

import grafana_dashboard
import promql_parser
import pytest
import yaml
from page_of_metrics import families, label_names
from prometheus_alerts import ALERTS, alerts

ROOT = Path(__file__).parent.parent
OF_PROMETHEUS = {"up"}
OF_SCRAPES = {"job", "instance", "le"}
SUFFIXES = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_sum", "_count"),
    "summary": ("_sum", "_count"),
}

LABELS = {
    f"{family.name}{suffix}": {*label_names(family), *OF_SCRAPES}
    for family in families()
    for suffix in SUFFIXES.get(family.type, ("",))
}
"""By the names that can be asked for."""


def asked(query: str) -> list[str]:
    """The metrics that a query names. Fails if it is none."""
    filled = query.replace("$__rate_interval", "5m")
    promql_parser.parse(filled)
    return re.findall(r"(?<![\w$])((?:semel|process)_[a-z_]+|up(?=\{))", filled)


def labels_of(query: str) -> set[str]:
    """Those that a query groups by."""
    groups = re.findall(r"by \(([^)]*)\)", query)
    return {label.strip() for group in groups for label in group.split(",")}


QUERIES = [*grafana_dashboard.queries(), *(alert.query for alert in alerts())]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_asks_for_what_a_broker_shows(query: str) -> None:
    named = asked(query)
    assert named
    for name in named:
        if not name.startswith("process_") and name not in OF_PROMETHEUS:
            assert name in LABELS, f"there is no {name}"
            assert labels_of(query) <= LABELS[name], query


def legends(query: str, text: str) -> None:
    shown = set(re.findall(r"\{\{ ?\$?(?:labels\.)?(\w+)", text)) - {"value"}
    groups = labels_of(query)
    for label in shown:
        its = [LABELS.get(name, OF_SCRAPES) for name in asked(query)]
        assert label in groups or (not groups and all(label in each for each in its)), text


def test_a_legend_names_labels_that_there_are() -> None:
    for panels in grafana_dashboard.ROWS.values():
        for panel in panels:
            for line in panel.lines:
                legends(line.query.replace("{}", grafana_dashboard.CHOSEN), line.legend)


def test_an_alert_says_what_it_is_about() -> None:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    rules: list[dict[str, Any]] = [rule for group in groups for rule in group["rules"]]
    names = [rule["alert"] for rule in rules]
    assert len(set(names)) == len(names)
    for rule in rules:
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s"))
        assert rule["annotations"]["summary"].endswith(".")
        legends(rule["expr"], rule["annotations"]["summary"])


def test_the_dashboard_has_every_panel_in_a_place_of_its_own() -> None:
    shown = json.loads((ROOT / "deploy" / "grafana" / "semel.json").read_text())
    places = [tuple(panel["gridPos"].values()) for panel in shown["panels"]]
    assert len(set(places)) == len(places)
    titles = {panel["title"] for panel in shown["panels"]}
    assert titles >= {panel.title for row in grafana_dashboard.ROWS.values() for panel in row}
