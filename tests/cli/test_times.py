"""Durations as users write and read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.cli.times import duration_in_words, parse_duration_ms


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("0ms", 0), ("250ms", 250), ("3s", 3000), ("2m", 120_000), ("1h", 3_600_000)],
)
def test_a_number_with_its_unit_is_a_duration(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize("text", ["", "5", "s", "-1s", "1.5s", "1 s", "1w"])
def test_anything_else_is_none(text: str) -> None:
    assert parse_duration_ms(text) is None


@pytest.mark.parametrize(
    ("duration_ms", "words"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1234, "1.23 s"),
        (60_000, "1 min"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h"),
        (90_061_000, "1 d 1 h"),
        (86_460_000, "1 d"),
    ],
)
def test_a_duration_is_told_by_its_largest_units(duration_ms: int, words: str) -> None:
    assert duration_in_words(duration_ms) == words


@given(st.integers(0, 10**12))
def test_every_duration_has_words(duration_ms: int) -> None:
    assert 0 < len(duration_in_words(duration_ms)) < 20
