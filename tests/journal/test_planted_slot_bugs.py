"""Each rule of slots is left out in turn; the case that is made for it must find its absence."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from journal import test_slot_rules, test_slots, test_slots_at_once
from semel.errors import SemelError
from semel.journal.slots import entries, following, history, landing, opening, replay, writer
from semel.journal.slots.barrier import Barriers
from semel.journal.slots.calls import Calls
from semel.journal.slots.entries import Entry, Head
from semel.journal.slots.journal import SlotJournal
from semel.journal.slots.landing import Found
from semel.journal.slots.table import SlotTable
from semel.store.seam import ObjectExists, StoreAway
from semel.types import Buffer, Position
from support.compiled import plain_python
from support.slot_store import Fault

Plant = Callable[[pytest.MonkeyPatch], None]


# Rule 15.


def an_error_is_taken_for_success(patch: pytest.MonkeyPatch) -> None:
    async def land(calls: Calls, key: str, parts: Sequence[Buffer], nonce: bytes) -> Entry | None:
        with contextlib.suppress(ObjectExists, StoreAway):
            await calls.create(key, parts)
        return None

    patch.setattr(writer, "land", land)


def exists_is_taken_for_foreign(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(landing, "judge", lambda nonce, entry: Found.FOREIGN if entry else Found.FREE)


def another_try_has_another_nonce(patch: pytest.MonkeyPatch) -> None:
    """So that what landed unheard is taken for another's."""

    async def land(calls: Calls, key: str, parts: Sequence[Buffer], nonce: bytes) -> Entry | None:
        return await landing.land(calls, key, parts, nonce[::-1])

    patch.setattr(writer, "land", land)


def every_entry_is_ours(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(landing, "judge", lambda nonce, entry: Found.OURS if entry else Found.FREE)


# Rules 16 and 17.


def what_is_void_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay, "counts", lambda standing, head: True)


def a_seal_ends_nothing(patch: pytest.MonkeyPatch) -> None:
    def counts(standing: history.Standing, head: Head) -> bool:
        return history.counts(standing._replace(is_sealed=False), head)

    patch.setattr(replay, "counts", counts)


def the_term_never_rises(patch: pytest.MonkeyPatch) -> None:
    def fenced(standing: history.Standing, epoch: int) -> history.Standing:
        term = max(standing.term, 0)
        return standing._replace(epoch=epoch, term=term, is_sealed=False)

    patch.setattr(opening, "fenced", fenced)


def a_kill_leaves_no_doubt(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(opening, "may_miss_acknowledged", lambda standing: False)


def nobody_seals(patch: pytest.MonkeyPatch) -> None:
    async def no_seal(self: writer.Writer, successor: int | None) -> None: ...

    patch.setattr(writer.Writer, "seal", no_seal)


# Several at once.


def what_has_landed_is_durable(patch: pytest.MonkeyPatch) -> None:
    """Whatever is missing before it."""
    confirm = writer.Writer._confirm

    def all_before_the_last(self: writer.Writer) -> None:
        puts = [batch.put for batch in self._batches if batch.put is not None]
        landed = [number for number, put in enumerate(puts) if put.has_landed]
        for put in puts[: max(landed, default=-1) + 1]:
            put.has_landed = True
        confirm(self)

    patch.setattr(writer.Writer, "_confirm", all_before_the_last)


def what_is_void_is_anothers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writer, "is_void", lambda epoch, head: False)


def whatever_is_anothers_is_void(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writer, "is_void", lambda epoch, head: head.epoch != epoch)


def others_are_begun_right_behind_a_fence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writer, "PUTS_AT_ONCE_MAX", 0)


def every_hole_was_collected(patch: pytest.MonkeyPatch) -> None:
    async def is_collected(calls: Calls, read: replay.Replay, *, was_there: bool = False) -> bool:
        await asyncio.sleep(0.01)
        return True

    patch.setattr(opening, "_is_collected", is_collected)


def every_entry_tells_of_others(patch: pytest.MonkeyPatch) -> None:
    """Whether it counts or not."""
    add = replay.Replay.add

    def noticed(self: replay.Replay, entry: Entry) -> None:
        add(self, entry)
        if not history.counts(self.standings[self.slot - 1], entry.head):
            self.standing = self.standing._replace(checksum=self.standing.checksum ^ 1)

    patch.setattr(replay.Replay, "add", noticed)


def many_are_begun_for_what_comes_in_trickles(patch: pytest.MonkeyPatch) -> None:
    much = property(lambda self: len(self._batches) > self._begun_count)
    patch.setattr(writer.Writer, "_is_much_waiting", much)


# Rule 18.


def what_is_confirmed_proves(patch: pytest.MonkeyPatch) -> None:
    """Whenever it was begun."""
    proved = Barriers.proved

    def generous(self: Barriers, number: int, durable: Position) -> list[Callable[[], None]]:
        return proved(self, self._begun + 1, durable)

    patch.setattr(Barriers, "proved", generous)


def a_barrier_is_only_durable(patch: pytest.MonkeyPatch) -> None:
    def when_alone(self: writer.Writer, callback: Callable[[], None]) -> None:
        self.when_durable(self._end, callback)

    patch.setattr(writer.Writer, "when_alone", when_alone)


def nobody_gives_up_without_a_barrier(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SlotJournal, "_watch_barriers", lambda self: None)


# Rule 31.


def the_boundary_is_not_read_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(opening, "look_again", lambda newest, fence, began: opening.Boundary.HOLDS)


def a_newer_checkpoint_is_no_reason_to_replay(patch: pytest.MonkeyPatch) -> None:
    def look_again(newest: int, fence: int, began: int) -> opening.Boundary:
        found = opening.Boundary
        return found.GIVE_UP if newest > fence else found.HOLDS

    patch.setattr(opening, "look_again", look_again)


def slots_go_before_their_checkpoint(patch: pytest.MonkeyPatch) -> None:
    def all_of(self: SlotTable, position: int, boundary: int) -> list[int]:
        return self._slots.tolist()

    patch.setattr(SlotTable, "collectable", all_of)


def fences_are_collected(patch: pytest.MonkeyPatch) -> None:
    collectable = SlotTable.collectable

    def with_fences(self: SlotTable, position: int, boundary: int) -> list[int]:
        found = collectable(self, position, boundary)
        return list(range(boundary)) if found else []

    patch.setattr(SlotTable, "collectable", with_fences)


# Rules 32 and 33.


def a_follower_waits_for_ever(patch: pytest.MonkeyPatch) -> None:
    async def waits(self: following.Follower, begun_s: float) -> bool:
        return False

    patch.setattr(following.Follower, "_found_free", waits)


def an_outage_is_silence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(following.Silence, "broken", lambda self: None)


def a_standby_throws_away_what_it_has_followed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay.Replay, "is_confirmed_by", lambda self, slot, standing: False)


# Memory, entries.


def nothing_is_refused(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SlotJournal, "reserve", lambda self, size, kept_size: None)


def the_header_is_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(entries, "crc32c", lambda stored, start=0: 0)


def _any_history() -> None:
    for seed in range(20):
        test_slot_rules.test_of_any_history_what_counts_is_what_the_rule_says(seed)


HEADER = test_slot_rules.test_no_bit_of_a_header_can_flip_unseen
ONE_PUT = test_slots.test_whatever_becomes_of_a_put_its_frames_are_there_once
FOREIGN = test_slots.test_a_foreign_entry_in_its_slot_ends_a_leader_and_nobody_is_answered
MOVE = test_slots.test_a_clean_move_keeps_the_term_and_a_kill_does_not
LANDED = test_slots.test_a_put_that_landed_before_the_fence_behind_it_proves_nothing
COLLECTED = test_slots.test_a_put_into_a_slot_that_was_collected_proves_nothing
OUTAGE = test_slots.test_an_outage_of_the_store_is_not_the_silence_of_a_leader
BOUNDED = (
    test_slots.test_what_is_unconfirmed_is_bounded_while_the_store_is_away_and_all_goes_on_after
)

FENCED = test_slots_at_once.test_whoever_takes_the_lane_fences_the_hole_and_what_lies_behind_is_void
LATE = partial(test_slots_at_once.test_what_lands_late_in_a_slot_of_the_successor_is_passed_over, 2)

NAMED: list[tuple[Plant, Callable[[], None]]] = [
    (an_error_is_taken_for_success, partial(ONE_PUT, Fault.LOST)),
    (an_error_is_taken_for_success, FOREIGN),
    (exists_is_taken_for_foreign, partial(ONE_PUT, Fault.UNHEARD)),
    (exists_is_taken_for_foreign, partial(ONE_PUT, Fault.EXISTS)),
    (another_try_has_another_nonce, partial(ONE_PUT, Fault.UNHEARD)),
    (every_entry_is_ours, FOREIGN),
    (what_is_void_counts, _any_history),
    (a_seal_ends_nothing, _any_history),
    (the_term_never_rises, MOVE),
    (a_kill_leaves_no_doubt, MOVE),
    (nobody_seals, MOVE),
    (
        what_has_landed_is_durable,
        test_slots_at_once.test_nothing_behind_a_hole_is_confirmed_before_it_is_filled,
    ),
    (what_is_void_counts, LATE),
    (what_is_void_is_anothers, FENCED),
    (what_is_void_is_anothers, test_slots_at_once.test_a_look_passes_over_what_is_void),
    (whatever_is_anothers_is_void, FOREIGN),
    (others_are_begun_right_behind_a_fence, LATE),
    (every_hole_was_collected, FENCED),
    (
        every_entry_tells_of_others,
        test_slots_at_once.test_what_is_void_does_not_tell_that_others_have_gone_on,
    ),
    (
        every_entry_tells_of_others,
        test_slots_at_once.test_a_fence_that_finds_a_void_entry_there_tries_the_next_slot,
    ),
    (
        many_are_begun_for_what_comes_in_trickles,
        test_slots_at_once.test_what_comes_in_trickles_has_one_put_under_way,
    ),
    (what_is_confirmed_proves, LANDED),
    (what_is_confirmed_proves, COLLECTED),
    (
        what_is_confirmed_proves,
        test_slots.test_a_look_that_was_begun_before_the_request_proves_nothing,
    ),
    (a_barrier_is_only_durable, test_slots.test_a_zombie_passes_no_barrier),
    (
        nobody_gives_up_without_a_barrier,
        test_slots.test_who_has_no_barrier_for_the_detection_time_steps_down,
    ),
    (the_boundary_is_not_read_again, test_slots.test_a_fence_in_a_collected_slot_is_given_up),
    (
        a_newer_checkpoint_is_no_reason_to_replay,
        test_slots.test_a_stray_fence_that_hides_a_hole_is_seen_through,
    ),
    (
        slots_go_before_their_checkpoint,
        test_slots.test_only_data_goes_and_only_behind_a_checkpoint,
    ),
    (fences_are_collected, test_slots.test_only_data_goes_and_only_behind_a_checkpoint),
    (fences_are_collected, COLLECTED),
    (
        a_follower_waits_for_ever,
        test_slots.test_a_follower_whose_slot_was_collected_begins_anew,
    ),
    (an_outage_is_silence, OUTAGE),
    (
        a_standby_throws_away_what_it_has_followed,
        test_slots.test_taking_over_replays_only_what_is_new,
    ),
    (nothing_is_refused, BOUNDED),
    (
        the_header_is_not_checked,
        partial(test_slot_rules.test_no_bit_of_a_header_can_flip_unseen, 9),
    ),
]


@plain_python
@pytest.mark.parametrize(("plant", "kill"), NAMED, ids=[plant.__name__ for plant, _ in NAMED])
def test_a_planted_bug_dies_by_name(
    plant: Plant, kill: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, TimeoutError, SemelError, pytest.fail.Exception)):
        kill()
