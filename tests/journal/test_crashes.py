"""A journal keeps its promises through any series of kills, power losses and failing disks."""

import pytest

from journal.random_lives import crash_again_and_again


@pytest.mark.parametrize("seed", range(120))
def test_what_was_promised_is_found_after_any_series_of_crashes(seed: int) -> None:
    crash_again_and_again(seed)
