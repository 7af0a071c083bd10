"""Principals are written as Kafka writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.access.principal import ANONYMOUS, Caller, Principal

NAMES = st.text(min_size=1)
TYPES = NAMES.filter(lambda kind: ":" not in kind)


@given(TYPES, NAMES)
def test_what_is_written_is_read_as_the_same_principal(kind: str, name: str) -> None:
    assert Principal.parse(f"{kind}:{name}") == (kind, name)
    assert str(Principal(kind, name)) == f"{kind}:{name}"


@pytest.mark.parametrize("text", ["", "alice", "User:", ":alice", ":"])
def test_what_lacks_a_type_or_a_name_is_no_principal(text: str) -> None:
    with pytest.raises(ValueError, match="no principal"):
        Principal.parse(text)


def test_who_has_not_signed_in_is_nobody() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"
    assert Caller().principal is ANONYMOUS
