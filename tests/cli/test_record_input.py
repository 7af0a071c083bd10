"""Lines of JSON as records: what was consumed can be produced, and what is none is told."""

import json
from pathlib import Path

import pytest

from semel.cli.record_input import NoRecord, placed_record
from semel.records.records import Record
from support.command_line import Run


@pytest.mark.parametrize(
    ("line", "record", "partition"),
    [
        ('{"value": "v"}', Record(None, b"v", 7), None),
        ('{"key": "k", "value": null}', Record(b"k", None, 7), None),
        ('{"value": {"a": [1, "ä"]}}', Record(None, '{"a": [1, "ä"]}'.encode(), 7), None),
        ('{"value": 3, "key": 4}', Record(b"4", b"3", 7), None),
        ('{"value_base64": "/w==", "key_base64": "AA=="}', Record(b"\0", b"\xff", 7), None),
        (
            '{"value": "", "headers": {"h": "x"}, "timestamp": -1, "partition": 3}',
            Record(None, b"", -1, (("h", b"x"),)),
            3,
        ),
        ('{"value": "v", "partition": 3, "offset": 9}', Record(None, b"v", 7), None),
    ],
)
def test_a_line_is_a_record(line: str, record: Record, partition: int | None) -> None:
    assert placed_record(line.encode(), 7) == (record, partition)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("plain", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1]", "is not an object with key and value"),
        ('{"value": NaN}', "has NaN, which is not JSON"),
        ('{"value": 1, "headers": {"h": [-Infinity]}}', "has -Infinity, which is not JSON"),
        ('{"value": [1e999]}', "has a number in its value that is too large"),
        ('{"key": "k"}', "has no value; null is the value of a tombstone"),
        ('{"valeu": 1}', "has an unknown field 'valeu'; did you mean 'value'?"),
        ('{"id": 1}', "has an unknown field 'id'; an object as the value stands under value"),
        ('{"value": 1, "value_base64": "AA=="}', "has both value and value_base64"),
        ('{"value_base64": "A"}', "has a value_base64 that is not base64"),
        ('{"value": 1, "partition": -1}', "has -1 as its partition, which is a whole number: one"),
        ('{"value": 1, "timestamp": -5}', "has -5 as its timestamp, which is a whole number: mill"),
        ('{"value": 1, "timestamp": "now"}', "has 'now' as its timestamp, which is a whole number"),
        ('{"value": 1, "headers": 3}', "has headers that are neither an object nor a list"),
        ('{"value": 1, "headers": [{}]}', "has a header without a key"),
        ('{"value": "\\ud800"}', "has a value with half of a surrogate pair"),
    ],
)
def test_what_is_no_record_is_told(line: str, sentence: str) -> None:
    with pytest.raises(NoRecord) as refused:
        placed_record(line.encode(), 7)
    assert str(refused.value).startswith(sentence)


def test_a_partition_that_the_topic_does_not_have_is_told_with_its_line(
    run: Run, tmp_path: Path
) -> None:
    run("topic", "create", "input-p", "-p", "2")
    (tmp_path / "in").write_text('{"value": "a", "partition": 1}\n{"value": "b", "partition": 2}\n')
    code, out, err = run("produce", "input-p", str(tmp_path / "in"), "--input", "json")
    assert (code, out) == (1, "1 record to input-p partition 1, from offset 0\n")
    assert "line 2 has 2 as its partition, and topic input-p has 2, counted from 0" in err
    assert run("consume", "input-p", "-e", "-f", "%s")[1] == "a"


def test_a_number_that_is_none_is_told_with_its_line(run: Run, tmp_path: Path) -> None:
    run("topic", "create", "input-nan", "-p", "1")
    (tmp_path / "in").write_text('{"value": 1}\n{"key": 7, "value": NaN}\n')
    code, _, err = run("produce", "input-nan", str(tmp_path / "in"), "--input", "json")
    assert code == 1
    assert "line 2 has NaN, which is not JSON" in err
    assert run("consume", "input-nan", "-e", "-f", "%s")[1] == "1"


def contents(out: str) -> list[str]:
    """What is printed of records, but not where they are."""
    found = [json.loads(line) for line in out.splitlines()]
    return sorted(
        json.dumps(
            {name: each[name] for name in each if name not in ("topic", "partition", "offset")}
        )
        for each in found
    )


def test_what_was_consumed_is_produced_again(run: Run, tmp_path: Path) -> None:
    run("topic", "create", "cli-json", "cli-json-copy", "-p", "2")
    records = [
        {"key": "k", "value": "v", "headers": [{"key": "h", "value": None}], "timestamp": 5},
        {"key_base64": "/w==", "value": None, "timestamp": 6, "partition": 1},
    ]
    file = tmp_path / "in.jsonl"
    file.write_text("\n\n".join(map(json.dumps, records)))
    assert run("produce", "cli-json", str(file), "--input", "json")[0] == 0
    _, first, _ = run("consume", "cli-json", "-e", "--json")
    file.write_text(first)
    assert run("produce", "cli-json-copy", str(file), "--input", "json")[0] == 0
    _, second, _ = run("consume", "cli-json-copy", "-e", "--json")
    assert contents(first) == contents(second)
    assert len(contents(second)) == 2


def test_a_line_that_is_no_record_is_named_behind_those_before_it(run: Run, tmp_path: Path) -> None:
    run("topic", "create", "cli-json-bad", "-p", "1")
    file = tmp_path / "in"
    file.write_text('{"value": 1}\n{"valeu": 2}\n{"value": 3}\n')
    code, out, err = run("produce", "cli-json-bad", str(file), "--input", "json")
    assert (code, out) == (1, "1 record to cli-json-bad partition 0, from offset 0\n")
    assert err == (
        f"semel: {file}: line 2 has an unknown field 'valeu'; did you mean 'value'?:"
        " '{\"valeu\": 2}'; the lines before it are sent\n"
    )
    code, _, err = run("produce", "cli-json-bad", str(file), "--input", "json", "-k", "a")
    assert code == 2
    assert "leave out --key" in err
