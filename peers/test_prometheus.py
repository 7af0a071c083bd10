"""A real Prometheus, of Debian, takes our rules, scrapes a broker and answers the dashboard."""

import asyncio
import contextlib
import json
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grafana_dashboard
import pytest
import yaml
from peers.registry import debian_program
from prometheus_alerts import alerts

import semel
from semel.testing import Broker
from support import looking
from support.raw_client import METRICS, monitoring_address

RULES = Path(__file__).parent.parent / "deploy" / "prometheus"
PACKAGE = "prometheus"
DEADLINE_S = 60
SCRAPES_MIN = 3
"""Rates and histograms over time need some."""
NOTHING_YET = (
    "semel_topic_bytes{",
    "semel_is_leader",
    "semel_standby_",
    "semel_takeovers_",
    "semel_store_",
)
"""What shows nothing before the first round of retention, or on a broker without a store."""


class Prometheus:
    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}"

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{self._address}/-/ready", timeout=DEADLINE_S).close()
            return True
        return False

    def asked(self, query: str) -> list[Any]:
        """What it answers to a query. An error of its own raises."""
        words = urllib.parse.urlencode({"query": query})
        address = f"{self._address}/api/v1/query?{words}"
        with urllib.request.urlopen(address, timeout=DEADLINE_S) as page:
            told = json.load(page)
        assert told["status"] == "success", told
        found: list[Any] = told["data"]["result"]
        return found

    def rules(self) -> list[Any]:
        with urllib.request.urlopen(f"{self._address}/api/v1/rules", timeout=DEADLINE_S) as page:
            groups = json.load(page)["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]


@pytest.fixture(scope="module")
def watched() -> Iterator[Broker]:
    """A broker in use: topics, a group that lags, a transaction that is open and others."""
    with Broker(arguments=METRICS) as broker:
        servers = broker.bootstrap_servers
        with (
            semel.Producer(servers, transactional_id="watched") as producer,
            semel.Producer(servers, transactional_id="open") as second,
            semel.Consumer(servers, "watchers") as consumer,
        ):
            with producer.transaction():
                producer.send("watched", value="once")
            consumer.subscribe(["watched"])
            next(iter(consumer))
            consumer.commit()
            with second.transaction():
                second.send("watched", value="not yet")
                second.flush()
                yield broker


@pytest.fixture(scope="module")
def prometheus(watched: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    config = yaml.safe_load((RULES / "prometheus.yaml").read_text())
    config["global"] |= {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(RULES / file) for file in config["rule_files"]]
    target = urllib.parse.urlsplit(monitoring_address(watched)).netloc
    config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        *debian_program("prometheus", PACKAGE),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            found = Prometheus(port)
            until(lambda: process.poll() is None and found.is_ready())
            scraped = f"count_over_time(up[{DEADLINE_S}s]) >= {SCRAPES_MIN}"
            until(lambda: bool(found.asked(scraped)))
            yield found
        finally:
            process.terminate()


def until(holds: Callable[[], bool]) -> None:
    asyncio.run(looking.until(holds))


def test_its_own_checker_takes_the_rules_and_what_a_broker_shows(watched: Broker) -> None:
    checker = debian_program("promtool", PACKAGE)
    subprocess.run([*checker, "check", "rules", str(RULES / "alerts.yaml")], check=True)
    with urllib.request.urlopen(f"{monitoring_address(watched)}/metrics", timeout=DEADLINE_S) as it:
        shown = it.read()
    linted = subprocess.run(
        [*checker, "check", "metrics"], input=shown, capture_output=True, check=False
    )
    assert (linted.returncode, linted.stdout + linted.stderr) == (0, b"")


def test_it_evaluates_each_rule_and_a_healthy_broker_alarms_nobody(prometheus: Prometheus) -> None:
    until(lambda: all(rule["health"] != "unknown" for rule in prometheus.rules()))
    rules = prometheus.rules()
    assert {rule["name"] for rule in rules} == {alert.name for alert in alerts()}
    assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] != "ok"} == {}
    assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []


@pytest.mark.parametrize("query", grafana_dashboard.queries())
def test_a_panel_gets_an_answer(prometheus: Prometheus, query: str) -> None:
    filled = query.replace("$__rate_interval", f"{DEADLINE_S}s")
    for choice in ("$job", "$instance"):
        filled = filled.replace(choice, ".*")
    if any(name in query for name in NOTHING_YET):
        assert prometheus.asked(filled) == []
    else:
        until(lambda: prometheus.asked(filled) != [])
