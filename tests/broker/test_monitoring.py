"""What monitoring reads: which paths there are, and what they tell of a broker's life and load."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from semel.broker.monitoring import Monitor
from semel.records.records import Record, encode_batch
from semel.testing import Broker
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from support.raw_client import (
    METRICS,
    RawClient,
    encoded,
    fetch,
    fetch_request,
    metric,
    monitoring_address,
    produce,
    produce_values,
    readiness,
    request_frame,
    until_shown,
)
from support.transactional_wire import WireProducer

PATIENCE_S = 60.0
SETTINGS = {"metrics.interval.ms": 100, "metrics.labels.max": 2}
SENT_AT_MS = 1_000
"""A second after 1970."""


@pytest.fixture(scope="module")
def watched() -> Iterator[Broker]:
    with Broker(arguments=METRICS, settings=SETTINGS) as broker:
        yield broker
        assert "Traceback" not in broker.complaints()


def asked(url: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as page:
            return page.status, json.load(page)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())


def test_only_the_path_of_the_metrics_has_them(watched: Broker) -> None:
    address = monitoring_address(watched)
    with urllib.request.urlopen(f"{address}/metrics", timeout=60) as page:
        text = page.read()
    assert b"# HELP semel_topics " in text
    assert b"\nprocess_resident_memory_bytes " in text
    for path in ("", "/", "/metrics/", "/metric", "/health", "/readyz/"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{address}{path}", timeout=60)
        with refused.value as page:
            assert (page.code, b"/metrics" in page.read()) == (404, True)


def test_a_broker_that_serves_is_alive_and_ready(watched: Broker) -> None:
    assert asked(f"{monitoring_address(watched)}/healthz") == (
        200,
        {"alive": True, "about": "alive"},
    )
    assert readiness(watched) == (200, "leading", True)
    assert readiness(watched, "?for=writes") == (200, "leading", True)


def test_it_is_not_ready_before_its_data_is_opened_nor_after_it_was_asked_to_stop() -> None:
    monitor = Monitor("127.0.0.1", 0)
    try:
        address = "http://{}:{}".format(*monitor.address)
        assert asked(f"{address}/healthz")[0] == 200
        code, told = asked(f"{address}/readyz")
        assert (code, told["state"], told["ready"]) == (503, "starting", False)
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{address}/metrics", timeout=60)

        async def stop() -> None:
            stopped = asyncio.Event()
            monitor.opened(stopped)
            stopped.set()
            code, told = await asyncio.to_thread(asked, f"{address}/readyz")
            assert (code, told["state"]) == (503, "stopping")
            assert (await asyncio.to_thread(asked, f"{address}/healthz"))[0] == 200

        asyncio.run(stop())
        # Its loop is gone, and will never have a turn again.
        assert asked(f"{address}/healthz")[0] == 503
    finally:
        monitor.close()


def test_how_long_requests_took_is_counted_by_api(watched: Broker) -> None:
    with RawClient(watched) as client:
        client.create_topic("timed")
        produce_values(client, "timed", [b"v"])
        before = metric(watched, r'semel_request_seconds_count\{api="Produce"\}')
        for _ in range(3):
            produce_values(client, "timed", [b"v"])
        count = metric(watched, r'semel_request_seconds_count\{api="Produce"\}')
        assert count == before + 3
        everything = r'semel_request_seconds_bucket\{api="Produce",le="\+Inf"\}'
        assert metric(watched, everything) == count
        assert metric(watched, r'semel_request_seconds_sum\{api="Produce"\}') > 0
        assert metric(watched, "semel_journal_sync_seconds_count") >= 1
        assert metric(watched, "semel_loop_late_seconds_count") >= 0


def test_what_stands_behind_a_request_that_waits_was_queued(watched: Broker) -> None:
    with RawClient(watched) as client, RawClient(watched) as other:
        client.create_topic("queued")
        before = metric(watched, "semel_request_queue_seconds_sum")
        waiting = encoded("fetch", 11, fetch_request("queued", 0, max_wait_ms=30_000))
        behind = encoded("fetch", 11, fetch_request("queued", 0))
        client.send(request_frame("fetch", 11, waiting) + request_frame("fetch", 11, behind))
        produce_values(other, "queued", [b"v"])
        assert client.receive() is not None
        assert client.receive() is not None
        assert metric(watched, "semel_request_queue_seconds_sum") > before


def test_what_comes_into_and_goes_out_of_a_topic_is_counted(watched: Broker) -> None:
    with RawClient(watched) as client, WireProducer(watched, "counted") as producer:
        client.create_topic("busy")
        batch = encode_batch([Record(None, b"v" * 10_000, SENT_AT_MS) for _ in range(5)])
        assert produce(client, "busy", batch).error_code == 0
        # There are more topics than are shown each.
        until_shown(watched, r'semel_topic_records_in_total\{topic="busy"\}', 5)
        assert metric(watched, r'semel_topic_bytes_in_total\{topic="busy"\}') == len(batch)
        fetch(client, "busy", 0)
        assert metric(watched, r'semel_topic_bytes_out_total\{topic="busy"\}') == len(batch)
        producer.init()
        producer.write("busy", b"v")
        producer.commit()
        assert metric(watched, r'semel_topic_records_in_total\{topic="busy"\}') == 6
        until_shown(watched, r'semel_transactional_ids\{state="CompleteCommit"\}', 1)


def test_only_the_busiest_topics_are_shown_each(watched: Broker) -> None:
    with RawClient(watched) as client:
        sizes = {"large": 300_000, "larger": 400_000, "least": 1}
        for topic, size in sizes.items():
            client.create_topic(topic)
            produce_values(client, topic, [bytes(size)])
    until_shown(watched, r'semel_topic_records_in_total\{topic="large"\}', 1)
    with urllib.request.urlopen(f"{monitoring_address(watched)}/metrics", timeout=60) as page:
        lines = page.read().decode().splitlines()
    shown = [line for line in lines if line.startswith("semel_topic_bytes_in_total{")]
    assert [line.partition("}")[0].partition('"')[2] for line in shown] == ['large"', 'larger"']


def test_a_groups_lag_is_told_in_records_and_seconds(watched: Broker) -> None:
    with RawClient(watched) as client:
        client.create_topic("lagging", 2)
        client.create_group_topic()
        produce_values(client, "lagging", [b"1", b"2", b"3"])
        labels = r'\{group="slow",topic="lagging"\}'
        for offset, seconds_min, seconds_max in ((1, 1e9, 1e10), (3, 0, 0)):
            partitions = [
                OffsetCommitRequestPartition(index, committed_offset=offset * (1 - index))
                for index in (0, 1)
            ]
            topics = [OffsetCommitRequestTopic("lagging", partitions=partitions)]
            request = OffsetCommitRequest("slow", -1, "", None, topics=topics)
            (answer,) = client.call("offset_commit", 8, request).topics
            assert [each.error_code for each in answer.partitions] == [0, 0]
            until_shown(watched, f"semel_group_lag{labels}", 3 - offset)
            assert seconds_min <= metric(watched, f"semel_group_lag_seconds{labels}") <= seconds_max
        assert metric(watched, r'semel_groups\{state="Empty"\}') == 1
        assert metric(watched, "semel_group_lag_all") == 0
