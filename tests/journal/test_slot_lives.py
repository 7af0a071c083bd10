"""Journals that fight over one lane keep what they promise, whatever the store does."""

from collections import Counter
from collections.abc import Callable

import pytest

from journal import test_planted_slot_bugs as planted
from journal.slot_lives import fight
from semel.errors import CorruptJournal
from support.compiled import plain_python

SEED_COUNT = 16
SEEDS_MAX = 120

Plant = Callable[[pytest.MonkeyPatch], None]


def test_nothing_is_lost_doubled_or_told_by_a_zombie() -> None:
    counts: Counter[str] = Counter()
    for seed in range(SEED_COUNT):
        counts += fight(seed)
    # A run in which little happens proves little.
    assert counts["taken"] > 100
    assert counts["continued"] > 50
    assert counts["sealed"] > 10
    assert counts["collected"] > 50
    assert counts["barriers"] > 100
    assert counts["acknowledged"] > 1000
    assert counts["void"] > 20
    assert counts["ahead"] > 100


def test_one_seed_gives_one_run() -> None:
    assert fight(3) == fight(3)


PLANTS: list[tuple[Plant, str]] = [
    (planted.an_error_is_taken_for_success, "acknowledged, and not there"),
    (planted.every_entry_is_ours, "leads without a fence|acknowledged, and not there"),
    (planted.what_is_void_counts, "is not what counts|begins at"),
    (planted.what_has_landed_is_durable, "acknowledged, and not there"),
    (planted.whatever_is_anothers_is_void, "acknowledged, and not there|zombie"),
    (planted.the_term_never_rises, "another term"),
    (planted.a_kill_leaves_no_doubt, "doubt was forgotten"),
    (planted.what_is_confirmed_proves, "a zombie has passed a barrier"),
    (planted.a_barrier_is_only_durable, "a zombie has passed a barrier"),
    (planted.the_boundary_is_not_read_again, "leads without a fence|is not what counts"),
]


@plain_python
@pytest.mark.parametrize(("plant", "death"), PLANTS, ids=[plant.__name__ for plant, _ in PLANTS])
def test_a_planted_bug_dies(plant: Plant, death: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, CorruptJournal), match=death):
        _fight_all()


def _fight_all() -> None:
    for seed in range(SEEDS_MAX):
        fight(seed)
