"""The rules of what goes, and when its room comes back, are left out; a named test finds each."""

from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from typing import Any

import pytest

from broker import test_filling_disk, test_retention
from semel.broker.housekeeping import Housekeeping
from semel.broker.retention import Expired, Policies, Retention
from semel.lane import settling
from semel.lane.clock import LaneClock
from semel.lane.lane import Lane
from semel.lane.partition_log import PartitionLog
from semel.lane.settling import Settling
from semel.lane.topics import DeleteExpired
from semel.lane.view import LaneView, PartitionView
from semel.types import Offset
from support.compiled import plain_python

Patch = pytest.MonkeyPatch


def a_clock_that_is_set_is_believed(patch: Patch) -> None:
    patch.setattr(LaneClock, "steady_wall_ms", LaneClock.wall_ms)


def the_clock_of_a_start_is_believed_at_once(patch: Patch) -> None:
    patch.setattr(Housekeeping, "_may_expire", lambda self: True)


def a_folder_that_kept_all_is_cleaned_unasked(patch: Patch) -> None:
    patch.setattr(LaneView, "is_retention_enforced", True)


def a_folder_that_kept_all_waits_though_it_was_told(patch: Patch) -> None:
    patch.setattr(LaneView, "is_retention_enforced", False)


def the_policy_of_a_moment_ago_counts(patch: Patch) -> None:
    async def delete(self: Retention, lane: Lane, expired: Sequence[Expired]) -> None:
        if expired:
            before = tuple((each.partition.number, each.before) for each in expired)
            lane.submit(DeleteExpired(before))

    patch.setattr(Retention, "_delete", delete)


def what_was_compacted_counts_whatever_the_topic_wants_by_now(patch: Patch) -> None:
    class Anything:
        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 0

    asked = Policies.settings_of

    def settings_of(self: Policies, partition: PartitionView) -> Any:
        return asked(self, partition) if partition.number not in seen else Anything()

    seen: set[int] = set()
    compact = Settling.compact

    async def noted(self: Settling, compactions: Sequence[Any]) -> Any:
        seen.update(each.number for each in compactions)
        return await compact(self, compactions)

    patch.setattr(Policies, "settings_of", settings_of)
    patch.setattr(Settling, "compact", noted)


def one_that_is_gone_keeps_all_behind_it(patch: Patch) -> None:
    """As the index alone would have it, which knows the largest time up to a batch."""

    async def by_index(self: PartitionLog, partition: PartitionView, gone_ms: int) -> Offset:
        found = await self._batches.first_at_or_after(
            partition.number, gone_ms + 1, partition.log_start_offset
        )
        return partition.log_end_offset if found is None else Offset(found.base_offset)

    patch.setattr(PartitionLog, "_first_younger", by_index)


def what_has_no_time_is_old(patch: Patch) -> None:
    async def timeless(self: PartitionLog, partition: PartitionView, gone_ms: int) -> Offset:
        return partition.log_end_offset

    patch.setattr(PartitionLog, "_first_younger", timeless)


def whoever_deletes_by_hand_waits_as_all_others(patch: Patch) -> None:
    patch.setattr(Settling, "deleted_by_hand", lambda self: None)


def whoever_deletes_little_by_hand_waits(patch: Patch) -> None:
    patch.setattr(settling, "WAITED_SHARE", 1)


def a_full_disk_waits_for_the_next_round(patch: Patch) -> None:
    def patient(self: Housekeeping) -> float:
        return self._broker.config.log_retention_check_interval_ms / 1000

    patch.setattr(Housekeeping, "_look_at_room", patient)


def records_go_only_when_all_is_settled(patch: Patch) -> None:
    async def in_vain(self: Housekeeping) -> None: ...

    patch.setattr(Housekeeping, "_delete_meanwhile", in_vain)


def what_is_still_to_be_compacted_is_copied(patch: Patch) -> None:
    patch.setattr(Settling, "is_piled_up", True)


def what_piles_up_waits_for_compaction(patch: Patch) -> None:
    patch.setattr(Settling, "is_piled_up", False)


def nothing_goes_between_two_passes(patch: Patch) -> None:
    async def in_vain(self: Settling) -> None: ...

    patch.setattr(Settling, "give_back", in_vain)


COPIED = test_retention.test_what_is_still_to_be_compacted_is_not_copied_before
AHEAD = test_retention.test_a_clock_that_is_set_ahead_deletes_nothing
AT_START = test_filling_disk.test_a_full_disk_is_no_reason_to_trust_a_clock_at_a_start
WAITS = test_retention.test_a_folder_of_a_version_that_kept_all_waits_to_be_told
AGAIN = test_retention.test_what_a_topic_keeps_is_looked_at_again_when_its_records_go
WANTED = test_retention.test_what_compaction_has_made_counts_only_if_the_topic_still_wants_it
FUTURE = test_retention.test_a_deleted_record_of_the_future_holds_nothing_back
TIMELESS = test_retention.test_records_without_a_time_are_not_old
BY_HAND = (
    test_retention.test_what_was_deleted_by_hand_gives_its_room_back_though_more_lives_beside_it
)
FULL = test_filling_disk.test_a_full_disk_does_not_wait_for_the_next_round_of_retention
BESIDE = test_retention.test_records_go_though_settling_takes_for_ever


@plain_python
@pytest.mark.parametrize(
    ("plant", "test"),
    [
        (a_clock_that_is_set_is_believed, AHEAD),
        (the_clock_of_a_start_is_believed_at_once, AT_START),
        (a_folder_that_kept_all_is_cleaned_unasked, partial(WAITS, False)),
        (a_folder_that_kept_all_waits_though_it_was_told, partial(WAITS, True)),
        (the_policy_of_a_moment_ago_counts, AGAIN),
        (what_was_compacted_counts_whatever_the_topic_wants_by_now, WANTED),
        (one_that_is_gone_keeps_all_behind_it, FUTURE),
        (what_has_no_time_is_old, TIMELESS),
        (whoever_deletes_by_hand_waits_as_all_others, partial(BY_HAND, "the topic", 5)),
        (whoever_deletes_little_by_hand_waits, partial(BY_HAND, "the topic", 1)),
        (a_full_disk_waits_for_the_next_round, FULL),
        (records_go_only_when_all_is_settled, BESIDE),
        (what_is_still_to_be_compacted_is_copied, partial(COPIED, False)),
        (what_piles_up_waits_for_compaction, partial(COPIED, True)),
        (nothing_goes_between_two_passes, partial(COPIED, False)),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_a_rule_that_is_left_out_is_missed(
    plant: Callable[[Patch], None], test: Callable[..., None], monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    parameters = signature(test).parameters
    with Patch.context() as own:
        inputs = {"monkeypatch": own, "change": test_retention.keep_all}
        wanted = {name: inputs[name] for name in parameters if name in inputs}
        with pytest.raises((AssertionError, ExceptionGroup)) as found:
            test(**wanted)
    if isinstance(found.value, ExceptionGroup):
        assert found.value.subgroup(AssertionError) is not None
