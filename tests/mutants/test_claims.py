"""The rules of the journal's room are left out one by one; a named test must find each absence."""

from collections.abc import Callable
from typing import Any

import pytest

from broker import test_full_disk, test_large_deletions, test_wide_transactions
from semel.errors import JournalFull
from semel.journal.file.segments import Segments
from semel.journal.seam import Limits
from semel.lane import lane
from semel.lane import transactions as lane_transactions
from semel.lane.commands import Claim, kept_size
from semel.lane.lane import Lane
from semel.lane.opening import BeginTerm
from support.compiled import plain_python

Plant = Callable[[pytest.MonkeyPatch], None]
Kill = Callable[[], None]


def nothing_is_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lane, "kept_size", lambda claim, owed_size, limits: 0)


def what_is_owed_is_not_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lane, "kept_size", lambda claim, owed_size, limits: kept_size(claim, 0, limits))


def what_ends_something_leaves_no_opening(patch: pytest.MonkeyPatch) -> None:
    def greedy(claim: Claim, owed_size: int, limits: Limits) -> int:
        return owed_size if claim is Claim.ENDING else kept_size(claim, owed_size, limits)

    patch.setattr(lane, "kept_size", greedy)


def who_begins_something_uses_the_headroom(patch: pytest.MonkeyPatch) -> None:
    def greedy(claim: Claim, owed_size: int, limits: Limits) -> int:
        return kept_size(claim if claim is Claim.OWED else Claim.ENDING, owed_size, limits)

    patch.setattr(lane, "kept_size", greedy)


def every_opening_is_written(patch: pytest.MonkeyPatch) -> None:
    start = Lane.start

    async def talkative(self: Lane, *arguments: Any) -> None:
        await start(self, *arguments)
        self.submit(BeginTerm())

    patch.setattr(Lane, "start", talkative)


def a_transaction_may_have_any_width(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lane_transactions, "_check_width", lambda *_: None)


def a_segment_is_never_longer(patch: pytest.MonkeyPatch) -> None:
    preallocate = Segments.preallocate
    patch.setattr(Segments, "preallocate", lambda segments, size=0: preallocate(segments))


PLANTS: list[tuple[Plant, Kill]] = [
    (nothing_is_left, test_full_disk.test_on_a_full_disk_everything_that_is_open_can_be_ended),
    (
        what_is_owed_is_not_left,
        test_full_disk.test_on_a_full_disk_everything_that_is_open_can_be_ended,
    ),
    (
        what_ends_something_leaves_no_opening,
        test_full_disk.test_a_full_disk_is_opened_again_and_again_whatever_was_asked_of_it,
    ),
    (
        who_begins_something_uses_the_headroom,
        test_full_disk.test_a_full_disk_is_opened_again_and_again_whatever_was_asked_of_it,
    ),
    (
        every_opening_is_written,
        test_full_disk.test_a_full_disk_is_opened_again_and_again_whatever_was_asked_of_it,
    ),
    (
        a_transaction_may_have_any_width,
        test_wide_transactions.test_under_tv2_the_batch_that_would_join_is_refused_with_the_reason,
    ),
    (
        a_segment_is_never_longer,
        test_large_deletions.test_a_topic_goes_with_what_wide_transactions_know_of_it,
    ),
]


@plain_python
@pytest.mark.parametrize(("plant", "kill"), PLANTS, ids=[plant.__name__ for plant, _ in PLANTS])
def test_a_planted_bug_dies(plant: Plant, kill: Kill, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(BaseExceptionGroup) as death:
        kill()
    assert death.group_contains((AssertionError, JournalFull))
