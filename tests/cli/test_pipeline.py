"""`semel pipeline`: what markers and groups tell of the queries of a cluster."""

import json
import re
from collections.abc import Iterator

import pyarrow as pa
import pytest

from semel.cli import pipeline
from semel.cli.pipeline import Seen
from semel.cli.pipeline_metrics import LastLook
from semel.client.admin.lag import PartitionLag
from semel.client.cluster.blocking import ClientOptions, shared
from semel.client.columns.encode import encode, rows_from
from semel.client.producing.coordination import GroupOffset
from semel.spark import committing
from semel.spark.committing import commit_batch
from semel.spark.marker import BatchMarker, Written, marker_metadata
from semel.spark.pipelines import Pipeline, marker_in, offsets_group_of
from semel.spark.sink_settings import sink_options, sink_settings
from semel.testing import Broker
from semel.types import TopicPartition
from support import topics
from support.command_line import Run, rows

QUERY = "5e3e1000-1111-2222-3333-444444444444"


@pytest.fixture(scope="module")
def group(semel_broker: Broker) -> Iterator[str]:
    """Of a query that has written two batches, read 2 of 5 records, and is called orders-aloud."""
    servers = semel_broker.bootstrap_servers
    for topic in ("pipeline-in", "pipeline-out"):
        topics.create(servers, topic)
    topics.fill(servers, "pipeline-in", [b"%d" % number for number in range(5)])
    given = {"kafka.bootstrap.servers": servers, "topic": "pipeline-out"}
    settings = sink_settings(sink_options(given))
    connected = shared(ClientOptions(servers))
    for number in range(2):
        content = rows_from(None, pa.array([b"x"] * 3, pa.binary()), now_ms=1)
        places = pa.array([0, 0, 0], pa.int32()).to_numpy()
        batches = [
            (TopicPartition("pipeline-out", 0), each.content) for each in encode(content, places)
        ]
        work = commit_batch(
            connected.cluster,
            settings,
            settings.transactional_id_of(QUERY),
            BatchMarker(QUERY, number, "run", query_name="orders-aloud"),
            batches,
            {TopicPartition("pipeline-in", 0): number + 1},
        )
        connected.run(work)
    committing._known.clear()
    yield f"semel-orders-aloud-{QUERY[:8]}"
    committing._known.clear()


def test_queries_are_listed_with_batch_and_lag(run: Run, group: str) -> None:
    code, out, _ = run("pipeline", "list")
    assert code == 0
    header, *lines = rows(out)
    assert header == ["NAME", "BATCH", "ROWS/S", "LAG", "BEHIND", "LAST-COMMIT", "SKIPPED"]
    (line,) = (each for each in lines if each[0] == "orders-aloud")
    assert (line[1], line[3]) == ("1", "3")
    _, out, _ = run("pipeline", "list", "--json")
    (found,) = (each for each in json.loads(out) if each["query_id"] == QUERY)
    assert (found["name"], found["group"], found["batch"]) == ("orders-aloud", group, 1)
    assert (found["rows"], found["lag"], found["skipped"]) == (3, 3, 0)
    assert found["behind_ms"] > 0
    assert found["rows_per_s"] > 0


@pytest.mark.parametrize("name", ["orders-aloud", QUERY, f"semel-orders-aloud-{QUERY[:8]}"])
def test_a_query_is_described_by_any_of_its_names(run: Run, group: str, name: str) -> None:
    code, out, _ = run("pipeline", "describe", name)
    assert code == 0
    assert ["group", group] in rows(out)
    (partition,) = (each for each in rows(out) if each[:1] == ["pipeline-in"])
    assert partition[:5] == ["pipeline-in", "0", "2", "5", "3"]


def test_a_query_that_is_not_there_is_refused_with_the_nearest_name(run: Run, group: str) -> None:
    code, out, err = run("pipeline", "describe", "orders-alout")
    assert (code, out) == (1, "")
    assert err == "semel: no query is called orders-alout; did you mean 'orders-aloud'?\n"


def test_an_empty_name_is_no_query_s(run: Run, group: str) -> None:
    code, out, err = run("pipeline", "describe", "")
    assert (code, out) == (2, "")
    assert err == "semel: the name of the query is empty: `semel pipeline list` shows all\n"


def test_queries_are_watched_look_by_look(run: Run, group: str) -> None:
    code, out, _ = run(
        "pipeline", "watch", "orders-aloud", "--every", "0.01", "--count", "2", "--json"
    )
    assert code == 0
    assert [[each["name"] for each in json.loads(look)] for look in out.splitlines()] == [
        ["orders-aloud"],
        ["orders-aloud"],
    ]


@pytest.mark.parametrize(("option", "value"), [("--every", "0"), ("--count", "0")])
def test_a_watch_that_never_looks_is_refused(run: Run, option: str, value: str) -> None:
    code, _, err = run("pipeline", "watch", option, value)
    assert code == 2
    assert option in err


def test_metrics_tell_of_queries_and_of_a_cluster_that_is_away(run: Run, group: str) -> None:
    watch = ["pipeline", "watch", "--count", "1", "--metrics", "127.0.0.1:0"]
    code, out, err = run(*watch)
    assert (code, out) == (0, "")
    assert re.fullmatch(r"semel: metrics are at http://127\.0\.0\.1:\d+/metrics\n", err)
    code, out, err = run(*watch, "-b", "127.0.0.1:1")
    assert (code, out) == (0, "")
    assert err.splitlines()[1] == "semel: 127.0.0.1:1 cannot be reached: connection refused"
    assert run(*watch, "--metrics", "9101")[0] == 2


def test_what_was_seen_is_a_page_of_metrics_and_one_of_health() -> None:
    last = LastLook()
    pages = {path: page for (_, path), page in last.pages().items()}
    assert pages["/healthz"](b"").status == 503
    last.seen([seen(at_ms=2000, since_ms=1000, now_ms=2100).pipeline], 2100)
    assert pages["/healthz"](b"").body == b"ok\n"
    text = pages["/metrics"](b"").body.decode()
    name = '{group="g",name="g"}'
    assert f"semel_pipeline_lag_records{name} 4.0\n" in text
    assert f"semel_pipeline_behind_seconds{name} 1.5\n" in text
    assert f"semel_pipeline_last_commit_timestamp_seconds{name} 2.0\n" in text
    assert "semel_pipeline_up 1.0\n" in text
    last.trouble = "no leader"
    assert pages["/readyz"](b"").body == b"no leader\n"
    assert "semel_pipeline_up 0.0\n" in pages["/metrics"](b"").body.decode()


def seen(at_ms: int, since_ms: int, now_ms: int, batch_id: int = 3) -> Seen:
    written = Written(rows=100, at_ms=at_ms, since_ms=since_ms)
    lag = PartitionLag("t", 0, offset=5, end=9, waiting_since_ms=now_ms - 1500)
    marker = BatchMarker(QUERY, batch_id, written=written)
    one = Pipeline("g", "g", marker, (lag,))
    return Seen(one, now_ms, one.rows_per_s)


def test_the_rate_is_that_of_the_last_batch_until_the_query_stands_still() -> None:
    first = seen(at_ms=2000, since_ms=1000, now_ms=2100)
    assert first.rows_per_s == 100
    before = {"g": first}
    moving = pipeline.with_rate(first._replace(now_ms=2900), before)
    standing = pipeline.with_rate(first._replace(now_ms=3500), before)
    gone_on = pipeline.with_rate(seen(3000, 2000, now_ms=9000, batch_id=4), before)
    assert (moving.rows_per_s, standing.rows_per_s, gone_on.rows_per_s) == (100, 0, 100)
    assert pipeline.row(first) == ("g", 3, "100", 4, "1.5 s", "100 ms ago", 0)


def test_what_is_not_known_is_shown_as_such() -> None:
    old = Pipeline("g", "g", BatchMarker(QUERY, 3), ())
    assert pipeline.row(Seen(old, 5000, old.rows_per_s)) == ("g", 3, None, None, None, None, 0)


@pytest.mark.parametrize(
    ("group", "said", "expected"),
    [
        ("semel-aloud-1", "", "semel-aloud-1"),
        ("semel-aloud-1", "lag", "lag"),
        ("semel-sink-semel-1-sink", "", "semel-1-sink"),
        ("team-sink-orders", "", "team-orders"),
    ],
)
def test_what_a_query_has_consumed_is_found_also_of_older_sinks(
    group: str, said: str, expected: str
) -> None:
    assert offsets_group_of(group, BatchMarker(QUERY, 3, offsets_group=said)) == expected


@pytest.mark.parametrize("metadata", ["", "text", "{", "{}", '{"queryId": "q", "rows": []}'])
def test_offsets_of_others_are_no_markers(metadata: str) -> None:
    assert marker_in(GroupOffset(7, metadata)) is None
    assert marker_in(GroupOffset(7, marker_metadata(BatchMarker("q", 6)))) == BatchMarker("q", 6)
