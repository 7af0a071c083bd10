"""What `semel.write` takes for a table, and how it refuses the rest."""

import re
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

import semel
from semel.client.columns.frames import as_table, fitting
from semel.client.columns.headers import HEADERS
from semel.errors import ConfigError
from semel.testing import Broker


class LazyFrame:
    """As polars has it: it says what to compute, and holds no rows."""

    def collect(self) -> None: ...


HEADER = [{"key": "trace", "value": b"1"}]
TEXT_OR_BYTES = "it has to be string or binary"
TIME = "it has to be a timestamp, or an integer of milliseconds"
HEADERS_TYPE = "it has to be list<item: struct<key: string, value: binary>>"


def column(name: str, values: Any) -> dict[str, Any]:
    return {"value": ["x"], name: values}


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (column("vlue", ["x"]), "a topic has no column 'vlue'"),
        ({"key": [b"k"]}, "the table has no column 'value'"),
        (column("key", [1]), f"column key is int64: {TEXT_OR_BYTES}"),
        (column("value", [1]), f"column value is int64: {TEXT_OR_BYTES}"),
        (column("value", [["a"]]), f"column value is list<item: string>: {TEXT_OR_BYTES}"),
        (
            column("key", pa.array([1]).dictionary_encode()),
            f"column key is dictionary<values=int64, indices=int32, ordered=0>: {TEXT_OR_BYTES}",
        ),
        (
            column("headers", pa.array([[("a", b"1")]], pa.map_(pa.string(), pa.binary()))),
            f"column headers is map<string, binary>: {HEADERS_TYPE}",
        ),
        (column("headers", ["a=1"]), f"column headers is string: {HEADERS_TYPE}"),
        (
            column("headers", [[{"value": b"1", "key": "a"}]]),
            f"column headers is list<item: struct<value: binary, key: string>>: {HEADERS_TYPE}",
        ),
        (
            column("headers", [[{"key": "a", "value": 1}]]),
            f"column headers is list<item: struct<key: string, value: int64>>: {HEADERS_TYPE}",
        ),
        (
            column("headers", pa.array([[(None, b"1")]], HEADERS)),
            "column headers has a header without key",
        ),
        (
            column("headers", pa.array([[None]], HEADERS)),
            "column headers has a header without key",
        ),
        (
            column("headers", [[{"key": b"\xff", "value": b"1"}]]),
            f"column headers is list<item: struct<key: binary, value: binary>>: {HEADERS_TYPE}",
        ),
        (
            pa.table([pa.array(["x"]), pa.array(["y"])], names=["value", "value"]),
            "the table has several columns 'value'",
        ),
        (column("timestamp", ["2024-05-01"]), f"column timestamp is string: {TIME}"),
        (column("timestamp", [1714521600.25]), f"column timestamp is double: {TIME}"),
        (column("partition", ["0"]), "column partition is string: it has to be an integer"),
        (column("partition", [0.5]), "column partition is double: it has to be an integer"),
        ({"value": "text"}, "column value is 'text': it has to be a list with a value per row"),
        (column("key", [1, "a"]), "column key cannot be taken over by Arrow: Could not convert"),
        (column("key", ["a", "b"]), "data cannot be taken over by Arrow: Column 1 named key"),
        (LazyFrame(), "data is a LazyFrame, which has no rows yet: collect it first"),
        ("text", "data is of type str: it has to be a table that Arrow can take over, a dict of"),
        ([b"one", b"two"], "data is of type list: it has to be a table that Arrow can take over"),
        (None, "data is of type NoneType: it has to be a table that Arrow can take over"),
    ],
)
def test_what_is_no_table_for_a_topic_is_refused_in_one_sentence(
    semel_broker: Broker, data: Any, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        semel.write("refused", data, bootstrap_servers=semel_broker.bootstrap_servers)


def test_a_list_of_topics_is_not_written_to(semel_broker: Broker) -> None:
    with pytest.raises(ConfigError, match="it has to be the name of one topic"):
        semel.write(["a", "b"], {"value": ["x"]}, bootstrap_servers=semel_broker.bootstrap_servers)  # type: ignore[arg-type]


def test_rows_are_dicts_of_which_each_may_lack_columns(semel_broker: Broker) -> None:
    servers = semel_broker.bootstrap_servers
    rows = [{"value": "one"}, {"value": "two", "key": "k", "headers": HEADER}]
    semel.write("rows", rows, bootstrap_servers=servers)
    semel.write("rows", [], bootstrap_servers=servers)
    read = semel.read("rows", bootstrap_servers=servers, columns=["key", "value", "headers"])
    assert sorted(read.to_pylist(), key=lambda row: row["value"]) == [
        {"key": None, "value": b"one", "headers": None},
        {"key": b"k", "value": b"two", "headers": HEADER},
    ]


def test_columns_of_nothing_are_as_good_as_none(semel_broker: Broker) -> None:
    servers = semel_broker.bootstrap_servers
    nothing = {name: [None] for name in ("key", "headers", "partition", "timestamp")}
    semel.write("nothing", {"value": ["x"], **nothing}, bootstrap_servers=servers)
    semel.write("nothing", {"value": [None], "headers": [[]]}, bootstrap_servers=servers)
    headers = pa.array([None], pa.large_list(pa.null()))
    semel.write("nothing", {"value": ["y"], "headers": headers}, bootstrap_servers=servers)
    read = semel.read("nothing", bootstrap_servers=servers, columns=["key", "value", "headers"])
    assert sorted(row["value"] or b"" for row in read.to_pylist()) == [b"", b"x", b"y"]
    assert {row["key"] for row in read.to_pylist()} == {None}


def test_what_only_a_log_can_know_is_passed_over(semel_broker: Broker) -> None:
    servers = semel_broker.bootstrap_servers
    known = {"topic": ["other"], "offset": [7], "timestampType": [1]}
    semel.write("known", {"value": ["x"], **known}, bootstrap_servers=servers)
    read = semel.read("known", bootstrap_servers=servers, columns=list(known))
    assert read.to_pylist() == [{"topic": "known", "offset": 0, "timestampType": 0}]


def test_the_index_of_a_pandas_frame_is_no_column() -> None:
    frame = pd.DataFrame({"value": ["a", "b", "c"]})
    assert fitting(as_table(frame.iloc[[2, 0, 1]])).column_names == ["value"]


def test_partitions_of_unsigned_numbers_may_be_null(semel_broker: Broker) -> None:
    servers = semel_broker.bootstrap_servers
    partition = pa.array([0, None], pa.uint8())
    semel.write(
        "unsigned", {"value": ["a", "b"], "partition": partition}, bootstrap_servers=servers
    )
    assert semel.read("unsigned", bootstrap_servers=servers).num_rows == 2


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
        pa.binary(1),
        pa.dictionary(pa.int8(), pa.string()),
    ],
    ids=str,
)
def test_text_and_bytes_come_in_every_layout(semel_broker: Broker, kind: pa.DataType) -> None:
    servers = semel_broker.bootstrap_servers
    topic = "layout-" + re.sub(r"\W+", "-", str(kind))
    semel.write(topic, {"value": pa.array(["x"], kind)}, bootstrap_servers=servers)
    assert semel.read(topic, bootstrap_servers=servers)["value"].to_pylist() == [b"x"]


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_list(HEADERS.value_type),
        pa.list_(HEADERS.value_type, 1),
        pa.large_list(pa.struct([("key", pa.string_view()), ("value", pa.large_string())])),
    ],
    ids=str,
)
def test_headers_come_in_every_layout(semel_broker: Broker, kind: pa.DataType) -> None:
    servers = semel_broker.bootstrap_servers
    topic = "headers-" + re.sub(r"\W+", "-", str(kind))
    headers = pa.array([[("trace", "1")]], kind)
    semel.write(topic, {"value": ["x"], "headers": headers}, bootstrap_servers=servers)
    read = semel.read(topic, bootstrap_servers=servers, columns="headers")
    assert read["headers"].to_pylist() == [HEADER]
