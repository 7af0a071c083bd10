"""Each step of settling, of giving room back and of a start is left out; a named test finds it."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from journal import test_checkpoints, test_release
from lane import test_damaged_data, test_settling, test_volume_files
from mutants import forgetting_bugs
from semel.errors import CorruptJournal
from semel.journal.damaged_index import DamagedIndex
from semel.journal.file import background, checkpoints, recovery
from semel.journal.file.background import remove_segment
from semel.journal.file.device import Device, Job
from semel.journal.file.note import Note
from semel.journal.index import BatchIndex
from semel.journal.sealed import NO_ENTRY
from semel.lane.settling import Settling
from semel.volumes import writing
from semel.volumes.store import DeviceVolumes
from semel.volumes.writing import _Batch
from support.compiled import plain_python

Patch = pytest.MonkeyPatch


def what_is_settled_is_not_checked(patch: Patch) -> None:
    patch.setattr(_Batch, "checked", _Batch.check_place)


def a_volume_is_named_before_it_has_its_own_name(patch: Patch) -> None:
    create = DeviceVolumes.create

    async def late(self: DeviceVolumes, number: int, temporary: str) -> str:
        asyncio.get_running_loop().call_later(
            0.005, lambda: asyncio.ensure_future(create(self, number, temporary))
        )
        return ""

    patch.setattr(DeviceVolumes, "create", late)


def readers_go_on_in_what_a_volume_has_replaced(patch: Patch) -> None:
    patch.setattr(BatchIndex, "settle", lambda self, volumes, end: None)


def segments_go_before_the_note_says_that_they_are_given_up(patch: Patch) -> None:
    release = background._release

    def hasty(device: Device, noted: Note, bases: Sequence[int]) -> Job:
        for base in bases:
            remove_segment(device, base)
            yield
        yield from release(device, noted, ())

    patch.setattr(background, "_release", hasty)


def a_start_removes_nothing_that_was_given_up(patch: Patch) -> None:
    patch.setattr(recovery, "_remove_released", lambda device, found, released: None)


def a_checkpoint_is_not_read_back(patch: Patch) -> None:
    patch.setattr(checkpoints, "_read_back", lambda device, name, parts: iter(()))


def without_a_checkpoint_a_start_begins_anew(patch: Patch) -> None:
    """Both are damaged, and what they told of the journal before them is gone."""
    recover = recovery.recover

    def forgiving(device: Device, *others: Any) -> Any:
        try:
            return recover(device, *others)
        except CorruptJournal:
            for name in device.names():
                device.remove(name)
            return recover(device, *others)

    patch.setattr("semel.journal.file.journal.recover", forgiving)


def a_volume_that_is_missing_is_not_missed(patch: Patch) -> None:
    patch.setattr(DeviceVolumes, "_check_there", lambda self, numbers: None)


def volumes_of_nobody_stay(patch: Patch) -> None:
    async def blind(self: Settling, volumes: set[int]) -> None: ...

    patch.setattr(Settling, "_delete", blind)


def what_a_damaged_index_hides_is_compacted_away(patch: Patch) -> None:
    patch.setattr(writing, "_tells_that_all_is_there", lambda *of_it: True)


def a_damaged_index_has_nothing(patch: Patch) -> None:
    def blind(self: DamagedIndex, partition: int) -> int:
        return NO_ENTRY if self._before is None else self._before.entry(partition)

    patch.setattr(DamagedIndex, "entry", blind)


DURABLE = test_settling.test_segments_stay_until_it_is_durable_that_nobody_needs_them
CHECKED = partial(
    test_damaged_data.test_a_damaged_batch_is_settled_as_it_is_and_all_others_as_they_were,
    test_damaged_data.PLACES["records"],
)
DAMAGED = test_damaged_data.test_a_damaged_index_of_a_volume_holds_up_only_whose_data_lies_there
HIDDEN = partial(DAMAGED, test_damaged_data.INDEX_PLACES["header"], False, "its own")
HIDDEN_FROM_WORKER = partial(DAMAGED, test_damaged_data.INDEX_PLACES["header"], True, "its own")
CRASHES = partial(test_settling.test_a_crash_at_any_moment_while_it_settles_loses_nothing, True)
ROOM = partial(
    test_settling.test_what_will_go_as_a_whole_is_left_unless_much_beside_it_is_dead, True
)
RELEASED = partial(test_release.test_a_crash_at_any_moment_is_no_damage, False)
READ_BACK = (
    test_checkpoints.test_a_checkpoint_that_the_disk_does_not_give_back_takes_the_place_of_none
)
LOST = test_release.test_without_a_checkpoint_the_rest_is_of_no_use_and_that_is_said
MISSING = test_volume_files.test_without_a_file_of_a_volume_a_start_is_refused_as_the_check_says
OF_NOBODY = (
    test_volume_files.test_a_volume_that_nothing_names_is_no_damage_and_the_next_start_removes_it
)


@plain_python
@pytest.mark.parametrize(
    ("plant", "test"),
    [
        (forgetting_bugs.segments_go_before_it_is_durable_that_nobody_needs_them, DURABLE),
        (what_is_settled_is_not_checked, CHECKED),
        (a_volume_is_named_before_it_has_its_own_name, CRASHES),
        (readers_go_on_in_what_a_volume_has_replaced, ROOM),
        (segments_go_before_the_note_says_that_they_are_given_up, RELEASED),
        (a_start_removes_nothing_that_was_given_up, RELEASED),
        (a_checkpoint_is_not_read_back, READ_BACK),
        (without_a_checkpoint_a_start_begins_anew, LOST),
        (a_volume_that_is_missing_is_not_missed, MISSING),
        (volumes_of_nobody_stay, OF_NOBODY),
        (what_a_damaged_index_hides_is_compacted_away, HIDDEN_FROM_WORKER),
        (a_damaged_index_has_nothing, HIDDEN),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_a_step_that_is_left_out_is_missed(
    plant: Callable[[Patch], None], test: Callable[[], None], monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, CorruptJournal, OSError, pytest.fail.Exception)):
        test()
