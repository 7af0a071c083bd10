"""Places and ranges as users name them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.cli.place import END, START, Place, PlaceKind, parse_place, parse_range
from semel.errors import ConfigError

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("start", START),
        ("beginning", START),
        ("earliest", START),
        ("end", END),
        ("latest", END),
        ("0", Place(PlaceKind.OFFSET, 0)),
        ("42", Place(PlaceKind.OFFSET, 42)),
        ("+3", Place(PlaceKind.START, 3)),
        ("-3", Place(PlaceKind.END, -3)),
        ("@1600000000000", Place(PlaceKind.MOMENT, 1_600_000_000_000)),
        ("@1600000000", Place(PlaceKind.MOMENT, 1_600_000_000_000)),
        ("@1970-01-02", Place(PlaceKind.MOMENT, 86_400_000)),
        ("@1970-01-01T00:00:01", Place(PlaceKind.MOMENT, 1000)),
        ("@1970-01-01T01:00:01+01:00", Place(PlaceKind.MOMENT, 1000)),
        ("@-1h", Place(PlaceKind.MOMENT, NOW_MS - 3_600_000)),
        ("@-2d", Place(PlaceKind.MOMENT, NOW_MS - 172_800_000)),
        ("@-5ms", Place(PlaceKind.MOMENT, NOW_MS - 5)),
    ],
)
def test_a_place_has_many_names(text: str, place: Place) -> None:
    assert parse_place(text, NOW_MS) == place
    assert parse_range(text, NOW_MS) == (place, None)


@pytest.mark.parametrize(
    ("text", "begin", "stop"),
    [
        ("3:7", Place(PlaceKind.OFFSET, 3), Place(PlaceKind.OFFSET, 7)),
        (":end", START, END),
        (":9", START, Place(PlaceKind.OFFSET, 9)),
        ("-5:end", Place(PlaceKind.END, -5), END),
        ("@1000:2000", Place(PlaceKind.MOMENT, 1_000_000), Place(PlaceKind.MOMENT, 2_000_000)),
        ("@1000:@2000", Place(PlaceKind.MOMENT, 1_000_000), Place(PlaceKind.MOMENT, 2_000_000)),
        ("@-1h:end", Place(PlaceKind.MOMENT, NOW_MS - 3_600_000), END),
        (
            "@1970-01-01T00:00:01:1970-01-01T00:00:02",
            Place(PlaceKind.MOMENT, 1000),
            Place(PlaceKind.MOMENT, 2000),
        ),
    ],
)
def test_a_range_is_two_places(text: str, begin: Place, stop: Place) -> None:
    assert parse_range(text, NOW_MS) == (begin, stop)


@pytest.mark.parametrize("text", ["@-99999999d", "@1969-12-31", "@0001-01-01"])
def test_a_time_before_1970_is_refused_as_such(text: str) -> None:
    with pytest.raises(ConfigError, match="this time is before 1970"):
        parse_place(text, NOW_MS)
    with pytest.raises(ConfigError, match="this time is before 1970"):
        parse_range(f"{text}:end", NOW_MS)


@given(st.text(max_size=12))
def test_any_text_is_a_range_or_refused_by_its_name(text: str) -> None:
    try:
        begin, stop = parse_range(text, NOW_MS)
    except ConfigError as error:
        said = str(error)
    else:
        assert isinstance(begin, Place)
        assert stop is None or isinstance(stop, Place)
        return
    assert repr(text) in said


@pytest.mark.parametrize("text", ["", "@", "@yesterday", "1.5", "--1", "a:b", "3:", "@-1w"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_range(text, NOW_MS)
    with pytest.raises(ConfigError):
        parse_place(text, NOW_MS)
