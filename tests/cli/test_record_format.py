"""How records are printed."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.cli.record_format import as_json, printer
from semel.client.consuming.record import Record, TimestampType
from semel.errors import ConfigError

HEADERS = (("a", b"1"), ("b", None))
RECORD: Record = Record("topic", 2, 7, 123, TimestampType.CREATE_TIME, b"key", b"value", HEADERS)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("%s\\n", b"value\n"),
        ("%v", b"value"),
        ("%t-%p@%o %T", b"topic-2@7 123"),
        ("%k:%K:%S:%V", b"key:3:5:5"),
        ("%h", b"a=1,b=NULL"),
        ("100%% \\t\\\\\\x41\\0", b"100% \t\\A\0"),
        ("ü", "ü".encode()),
        ("", b""),
    ],
)
def test_a_format_prints_its_parts(text: str, printed: bytes) -> None:
    assert printer(text)(RECORD) == printed


def test_null_prints_as_nothing_and_has_length_minus_one() -> None:
    record = RECORD._replace(key=None, value=None)
    assert printer("[%k][%K][%s][%S]")(record) == b"[][-1][][-1]"


@pytest.mark.parametrize("text", ["%y", "%", "\\q", "\\", "json"])
def test_an_unknown_part_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        printer(text)


@given(st.none() | st.binary(), st.none() | st.binary())
def test_json_gives_back_key_and_value(key: bytes | None, value: bytes | None) -> None:
    line = as_json(RECORD._replace(key=key, value=value, headers=(("h", value),)))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    fields = json.loads(line)

    def original(holder: dict[str, str | None], name: str) -> bytes | None:
        if f"{name}_base64" in holder:
            return base64.b64decode(holder[f"{name}_base64"] or "")
        text = holder[name]
        return None if text is None else text.encode()

    assert (original(fields, "key"), original(fields, "value")) == (key, value)
    assert original(fields["headers"][0], "value") == value
    assert (fields["topic"], fields["partition"], fields["offset"]) == ("topic", 2, 7)
