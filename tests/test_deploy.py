"""What lies in deploy/ for other programs: it asks for metrics and options that there are."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import grafana_dashboard
import promql_parser
import pytest
import yaml
from page_of_metrics import families, label_names
from prometheus_alerts import ALERTS, alerts

from semel.broker.options import static_config
from semel.cli import serve

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
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
    shown = json.loads((DEPLOY / "grafana" / "semel.json").read_text())
    places = [tuple(panel["gridPos"].values()) for panel in shown["panels"]]
    assert len(set(places)) == len(places)
    titles = {panel["title"] for panel in shown["panels"]}
    assert titles >= {panel.title for row in grafana_dashboard.ROWS.values() for panel in row}


# Where it runs


def in_brackets(file: Path, word: str) -> list[str]:
    """What a Dockerfile says last of this word, as a list."""
    found = re.findall(rf"^{word} (\[.*\])$", file.read_text(), re.MULTILINE)
    words: list[str] = json.loads(found[-1])
    return words


def test_the_image_runs_a_broker_that_its_health_check_finds_and_not_as_root() -> None:
    file = DEPLOY / "Dockerfile"
    command = in_brackets(file, "ENTRYPOINT") + in_brackets(file, "CMD")
    assert command[:2] == ["semel", "serve"]
    options = serve.options_of(command[2:])
    assert static_config(options).node_id == 1
    text = file.read_text()
    assert options.metrics == "0.0.0.0:9100"
    assert "http://127.0.0.1:9100/readyz" in text
    assert f"VOLUME {options.data}\n" in text
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["10001:10001"]


def test_what_an_image_is_made_of_is_not_left_out() -> None:
    kept = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    for file in (DEPLOY / "Dockerfile", ROOT / "examples" / "cluster" / "Dockerfile"):
        for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", file.read_text(), re.MULTILINE):
            for source in sources.split():
                assert source in kept
                assert (ROOT / source).exists()


def test_the_compose_file_keeps_what_it_runs_locked_down_and_mounts_what_there_is() -> None:
    composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for name, service in composed["services"].items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert source in composed["volumes"] or (DEPLOY / source).exists(), volume
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())
    (job,) = scraped["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["broker:9100"]}]
    assert all((DEPLOY / "prometheus" / file).exists() for file in scraped["rule_files"])


def test_systemd_takes_the_unit_and_the_broker_its_file(tmp_path: Path) -> None:
    unit = (DEPLOY / "systemd" / "semel.service").read_text()
    (command,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    assert command == "/opt/semel/bin/semel serve --config /etc/semel/semel.toml"
    settings = DEPLOY / "systemd" / "semel.toml"
    options = serve.options_of(["--config", str(settings)])
    state = re.search(r"^StateDirectory=(.*)$", unit, re.MULTILINE)
    assert state is not None
    assert str(options.data) == f"/var/lib/{state[1]}"
    assert tomllib.loads(settings.read_text())["serve"]["metrics"] == options.metrics
    analyse = shutil.which("systemd-analyze")
    if analyse is None:
        pytest.skip("systemd-analyze is not here")
    file = tmp_path / "semel.service"
    file.write_text(unit.replace("/opt/semel/bin/semel", sys.executable))
    verified = subprocess.run(
        [analyse, "verify", str(file)], capture_output=True, text=True, check=False
    )
    assert (verified.returncode, verified.stderr) == (0, "")
