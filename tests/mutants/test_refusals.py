"""What a cluster refuses (docs/cluster.md, *Stores*): each refusal is left out, and noticed."""

from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from cluster import test_format, test_membership
from semel.cluster import format as cluster_format
from semel.cluster.membership import Membership
from semel.errors import NewerFormat, SemelError
from semel.store import probe as probing
from semel.store import settings as store_settings
from semel.store.in_memory import MemoryStore
from semel.store.probe import Probe
from store import test_obstore, test_probe
from support.compiled import plain_python

Patch = pytest.MonkeyPatch

pytestmark = plain_python


async def _nothing(*_: object) -> None: ...


# A store that fails the probe.


def nobody_creates_twice(patch: Patch) -> None:
    patch.setattr(Probe, "create_twice", _nothing)


def nobody_races(patch: Patch) -> None:
    """A probe that asks one after the other is passed by stores which check and then write."""
    patch.setattr(Probe, "race", _nothing)


def one_races_alone(patch: Patch) -> None:
    patch.setattr(probing, "RACERS", 1)


def whoever_was_told_has_won(patch: Patch) -> None:
    """It is not read back."""
    enter = Probe._enter
    get = Probe._get
    won: dict[str, bytes] = {}

    async def remembered(self: Probe, key: str, content: bytes) -> bool | None:
        told = await enter(self, key, content)
        if told:
            won[key] = content
        return told

    async def believed(self: Probe, key: str) -> object:
        return won[key] if key in won else await get(self, key)

    patch.setattr(Probe, "_enter", remembered)
    patch.setattr(Probe, "_get", believed)


def no_probe(patch: Patch) -> None:
    patch.setattr(cluster_format, "probe", _nothing)


# Another cluster's id or format under the prefix.


def whatever_cluster_it_is(patch: Patch) -> None:
    patch.setattr(test_format, "check_same", lambda found, format_: None)


def whatever_format_it_has(patch: Patch) -> None:
    patch.setattr(cluster_format, "FORMAT", 99)


def whatever_lies_there(patch: Patch) -> None:
    """What is not a cluster's beginning is taken for one that says nothing."""
    decode = msgspec.json.decode

    def generous(stored: bytes, **how: object) -> object:
        try:
            return decode(stored, **how)  # type: ignore[call-overload]
        except msgspec.DecodeError:
            return None

    patch.setattr(msgspec.json, "decode", generous)


# A node id that beats from elsewhere.


def whoever_beats_is_taken(patch: Patch) -> None:
    patch.setattr(Membership, "_check_gone", lambda self, known, incarnation, now_s: None)


def an_id_that_was_replaced_may_come_back(patch: Patch) -> None:
    heard = Membership.heard

    def forgetful(self: Membership, *beat: object) -> None:
        self._replaced.clear()
        heard(self, *beat)  # type: ignore[arg-type]

    patch.setattr(Membership, "heard", forgetful)


# A folder that is never synced.


def a_folder_lasts(patch: Patch) -> None:
    patch.setattr(store_settings, "EPHEMERAL", frozenset[str]())
    patch.setattr(store_settings, "LASTING", store_settings.LASTING | {"file"})


def _found_out(kind: type[MemoryStore], said: str) -> Callable[[], None]:
    return partial(test_probe.test_a_store_that_does_not_keep_its_word_is_refused, kind, said)


CHECKS_THEN_WRITES = _found_out(test_probe.ChecksThenWrites, "at once were told")
NAMED: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (nobody_creates_twice, _found_out(test_probe.IgnoresCreateOnly, "creates it twice")),
    (nobody_races, CHECKS_THEN_WRITES),
    (one_races_alone, CHECKS_THEN_WRITES),
    (
        whoever_was_told_has_won,
        _found_out(test_probe.WritesThenChecksInARace, "is not what that one wrote"),
    ),
    (no_probe, test_format.test_a_store_that_creates_twice_begins_no_cluster),
    (whatever_cluster_it_is, test_format.test_a_journal_of_another_cluster_is_refused),
    (
        whatever_format_it_has,
        partial(
            test_format.test_what_cannot_be_read_is_refused,
            b'{"format": 4, "something": "else"}',
            NewerFormat,
        ),
    ),
    (
        whatever_lies_there,
        partial(
            test_format.test_what_cannot_be_read_is_refused,
            b'{"format": 1}',
            cluster_format.ClusterRefused,
        ),
    ),
    (
        whoever_beats_is_taken,
        test_membership.test_the_second_of_two_with_one_id_is_refused_when_the_first_was_heard_again,
    ),
    (
        an_id_that_was_replaced_may_come_back,
        test_membership.test_two_behind_one_address_do_not_take_turns,
    ),
    (
        a_folder_lasts,
        partial(
            test_obstore.test_a_url_that_names_no_lasting_store_is_refused,
            "file:///tmp/x",
            "never synced",
        ),
    ),
]


@pytest.mark.parametrize(("plant", "kill"), NAMED, ids=[plant.__name__ for plant, _ in NAMED])
def test_a_refusal_that_is_left_out_is_noticed(
    plant: Callable[[Patch], None], kill: Callable[[], None], monkeypatch: Patch
) -> None:
    kill()
    plant(monkeypatch)
    with pytest.raises((AssertionError, AttributeError, SemelError, pytest.fail.Exception)):
        kill()
