"""Which rights an API needs stands beside its versions; one that says nothing does not start."""

import pytest

from semel.wire.apis import BY_KEY, Api
from semel.wire.rights import DESCRIBE_TOPIC, NEEDED, WRITE_TOPIC


def test_an_api_that_is_served_without_a_word_about_rights_does_not_start() -> None:
    with pytest.raises(TypeError, match="Surprise does not say which rights"):
        Api(999, "Surprise", "surprise", (0, 0), 0)


def test_what_is_not_served_needs_no_rights() -> None:
    assert Api(999, "Surprise", "surprise", (0, 0), 0, unserved="not yet").rights == ()


def test_the_rights_of_an_api_are_those_of_its_row() -> None:
    assert BY_KEY[2].rights == (DESCRIBE_TOPIC,)
    assert WRITE_TOPIC in BY_KEY[0].rights
    assert all(BY_KEY[key].rights == rights for key, rights in NEEDED.items() if key in BY_KEY)
