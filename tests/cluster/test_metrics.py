"""What a node shows of its cluster and of the store, against what a test has done."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from semel.testing import Broker
from semel.testing.broker import BrokerDidNotStart
from support.raw_client import METRICS, RawClient, metric, produce_values, readiness
from support.store_process import URL, StoreProcess, store_process

DETECTION_MS = 1_000
SETTINGS = {"cluster.detection.ms": DETECTION_MS, "store.prices": "put=1000"}
PATIENCE_S = 60.0
THOUSANDS_IN_A_MONTH = 30 * 86_400 / 1_000
"""Requests of a month, at one a second."""


@pytest.fixture
def store() -> Iterator[StoreProcess]:
    with store_process() as store:
        yield store


def shown(broker: Broker, name: str, **labels: str) -> float:
    named = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
    return metric(broker, rf"{name}\{{{named}\}}" if named else name)


def wait_until_shown(broker: Broker, name: str, least: float, **labels: str) -> None:
    """Nobody tells when it is so."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        if shown(broker, name, **labels) >= least:
            return
    raise AssertionError(f"{name} stays below {least}")


def test_a_leader_shows_what_it_asks_of_the_store_and_what_that_costs(store: StoreProcess) -> None:
    with store.node(1, SETTINGS, *METRICS) as node:
        wait_until_shown(node, "semel_is_leader", 1)
        assert shown(node, "semel_leader_node") == 1
        assert shown(node, "semel_leader_epoch") == 0
        assert shown(node, "semel_takeovers_total", how="handover") == 1
        assert shown(node, "semel_takeovers_total", how="silence") == 0
        assert shown(node, "semel_standby_lag_seconds") == 0
        puts = shown(node, "semel_store_requests_total", store="s3", verb="put")
        with RawClient(node) as client:
            client.create_topic("t")
            for _ in range(3):
                produce_values(client, "t", [b"v" * 1000])
            client.end_offset("t")
        grown = shown(node, "semel_store_requests_total", store="s3", verb="put") - puts
        assert grown >= 4
        assert shown(node, "semel_store_bytes_total", store="s3", way="written") > 3000
        count = shown(node, "semel_store_request_seconds_count", store="s3", verb="put")
        assert count >= grown
        assert (
            shown(node, "semel_store_request_seconds_bucket", le=r"\+Inf", store="s3", verb="put")
            >= count
        )
        assert shown(node, "semel_slots") >= 4
        assert shown(node, "semel_oldest_slot") == 1
        assert shown(node, "semel_newest_slot") > shown(node, "semel_slots")
        assert shown(node, "semel_slot_bytes") > 3000
        assert shown(node, "semel_barrier_seconds_count") >= 1
        assert shown(node, "semel_barrier_seconds_sum") > 0
        assert shown(node, "semel_journal_frames") >= 4
        # A dollar each, and a beat every third of a second: about 7.8 million a month.
        assert shown(node, "semel_store_month_usd", store="s3") > 1_000_000


def test_the_status_shows_what_is_asked_of_the_store_and_what_that_costs_by_the_settings(
    store: StoreProcess,
) -> None:
    def status(*options: str) -> str:
        ask = [sys.executable, "-m", "semel", "cluster", "status", "--store", URL, *options]
        return subprocess.run(ask, check=True, capture_output=True, text=True).stdout

    # Another list than the one that is there without a setting, and without what is kept.
    settings = SETTINGS | {"store.prices": "put=7 get=3 list=2"}
    with store.node(1, settings, *METRICS) as node:
        wait_until_shown(node, "semel_is_leader", 1)
        with RawClient(node) as client:
            client.create_topic("t")
            produce_values(client, "t", [b"v" * 100_000])
            # Who is told the end of a log when nothing was appended has made the leader look.
            client.end_offset("t")
        told = json.loads(status("--json"))["store"]
        assert told["puts_per_s"] > 0
        assert told["gets_per_s"] > 0
        # Since it leads, which is not for long.
        assert told["bytes_written_per_s"] > 100_000 / PATIENCE_S
        priced = told["puts_per_s"] * 7 + told["gets_per_s"] * 3 + told["lists_per_s"] * 2
        assert told["usd_per_month"] == pytest.approx(priced * THOUSANDS_IN_A_MONTH)
        text = status()
        each = r"store +\S+ PUT/s, \S+ GET/s, \S+ LIST/s; \S+ k?B/s written, \S+ k?B/s read\n"
        assert re.search(each, text), text
        cost = re.search(r"cost +\$(\S+) a month, by store.prices\n", text)
        assert cost is not None, text
        assert float(cost[1]) > 0


def test_what_the_store_turns_away_is_counted_by_kind_and_asked_again(store: StoreProcess) -> None:
    with store.node(1, SETTINGS, *METRICS) as node:
        wait_until_shown(node, "semel_is_leader", 1)
        plan = [
            {"fault": "SLOW_DOWN", "verb": "PUT", "count": 2},
            {"fault": "SLOW_DOWN", "verb": "GET", "count": 2},
            {"fault": "FORBIDDEN", "verb": "PUT", "count": 1},
        ]
        store.control(plan=plan)
        with RawClient(node) as client:
            client.create_topic("t")
            assert client.end_offset("t") == 0
        assert shown(node, "semel_store_throttled_total") == 4
        assert (
            shown(node, "semel_store_errors_total", store="s3", verb="put", kind="throttled") == 2
        )
        assert shown(node, "semel_store_errors_total", store="s3", verb="put", kind="refused") == 1
        assert shown(node, "semel_store_retries_total") == 2


def test_who_stands_by_shows_whom_it_follows_and_takes_over(store: StoreProcess) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(store.node(1, SETTINGS, *METRICS))
        wait_until_shown(first, "semel_is_leader", 1)
        second = stack.enter_context(store.node(2, SETTINGS, *METRICS))
        wait_until_shown(second, "semel_leader_node", 1)
        assert shown(second, "semel_is_leader") == 0
        assert readiness(first, "?for=writes") == (200, "leading", True)
        assert readiness(second) == (200, "standing by", False)
        assert readiness(second, "?for=writes") == (503, "standing by", False)
        assert shown(second, "semel_oldest_slot") == -1
        assert shown(second, "semel_standby_lag_seconds") < PATIENCE_S
        first.kill()
        wait_until_shown(second, "semel_is_leader", 1)
        assert shown(second, "semel_leader_epoch") == 1
        assert shown(second, "semel_takeovers_total", how="silence") == 1


def test_a_bad_price_list_is_refused_at_start(store: StoreProcess) -> None:
    with pytest.raises(BrokerDidNotStart, match="prices have no 'post'"):
        store.node(1, {"store.prices": "post=1"}).start()
