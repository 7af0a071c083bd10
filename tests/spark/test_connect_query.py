"""Which query a function writes for on a Connect server, without Spark."""

import re
import sys
from typing import Any

import pytest

from semel.errors import ConfigError
from semel.spark import connect_query
from semel.spark.connect_query import Home
from semel.spark.query import running_query
from semel.spark.task import Origin

REDACTION = "spark.sql.redaction.string.regex"


class FakeConf(dict[str, str]):
    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        self.pop(name, None)


class FakeSession:
    """Of a query, or one that queries were started from."""

    def __init__(self, *queries: "FakeQuery") -> None:
        self.conf = FakeConf()
        self.streams = self
        self.active = list(queries)


class FakeQuery:
    """Shows its plan as Spark does, by what its own session says."""

    def __init__(
        self,
        number: int,
        options: str = "checkpointLocation=/data/one",
        name: str | None = None,
    ) -> None:
        self.id = f"e27075f9-2016-4f6a-8410-3118749191{number:02d}"
        self.runId = f"64e45010-60fb-4384-9e9e-f4ae4e1ac0{number:02d}"
        self.name = name
        self.isActive = True
        self.session = FakeSession()
        self.options = options

    def explain(self, extended: bool) -> None:
        assert extended
        plan = (
            f"== Parsed Logical Plan ==\n"
            f"~WriteToMicroBatchDataSourceV1 ForeachBatchSink, {self.id}, [{self.options}], "
            f"Append, 7\n+- ~StreamingDataSourceV2ScanRelation[key#1, value#2L]\n"
        )
        if pattern := self.session.conf.get(REDACTION):
            plan = re.sub(pattern, "*********(redacted)", plan)
        sys.stdout.write(plan)


def test_a_query_that_is_alone_needs_no_question() -> None:
    (one,) = queries = [FakeQuery(1)]
    found = Home(FakeSession(*queries)).query(one.session, None)
    assert found.origin == Origin(one.id, one.runId)
    assert not found.is_stopped()
    assert one.session.conf == {}


@pytest.mark.parametrize("before", [None, "password=\\w+"])
def test_of_several_queries_each_finds_its_own_and_leaves_its_settings(before: str | None) -> None:
    queries = [FakeQuery(number, name=f"query {number}") for number in range(4)]
    for each in queries:
        if before is not None:
            each.session.conf.set(REDACTION, before)
    for each in queries:
        found = Home(FakeSession(*queries)).query(each.session, None)
        assert found.origin == Origin(each.id, each.runId, query_name=each.name or "")
        assert each.session.conf.get(REDACTION) == before


def test_it_is_not_misled_by_others_that_ask_at_the_same_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = queries = [FakeQuery(1), FakeQuery(2)]
    shown = FakeQuery.explain

    def while_two_asks_whether_it_is_two(query: FakeQuery, extended: bool) -> None:
        with connect_query._also_redacting(two.session, two.id):
            shown(query, extended)

    monkeypatch.setattr(FakeQuery, "explain", while_two_asks_whether_it_is_two)
    assert Home(FakeSession(*queries)).query(one.session, None).origin.query_id == one.id


def test_a_session_of_which_no_query_is_shown_is_refused() -> None:
    queries = [FakeQuery(1), FakeQuery(2)]
    with pytest.raises(ConfigError, match="which of the 2 queries of this session"):
        Home(FakeSession(*queries)).query(FakeSession(), None)


@pytest.mark.parametrize(
    ("options", "checkpoint"),
    [
        ("checkpointLocation=/data/one", "/data/one"),
        ("a=b, checkpointlocation=s3://bucket/the one, path=/x", "s3://bucket/the one"),
        ("a=b", None),
        ("", None),
    ],
)
def test_the_checkpoint_is_where_the_options_of_the_query_say(
    options: str, checkpoint: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []
    monkeypatch.setattr(connect_query, "consumed_offsets", lambda *asked: read.append(asked))
    query = FakeQuery(1, options)
    Home(FakeSession(query)).query(query.session, None).consumed(7)
    assert read == ([(checkpoint, 7)] if checkpoint else [])
    Home(FakeSession(query)).query(query.session, "/told").consumed(8)
    assert read[-1] == ("/told", 8)


def test_a_function_that_was_made_at_the_server_is_told_so() -> None:
    with pytest.raises(ConfigError, match="made outside of the function that calls it"):
        running_query(FakeSession(), None, None)
