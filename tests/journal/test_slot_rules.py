"""The rules of slots that are functions: what counts, what a fence says, what is free to go."""

from random import Random

import pytest

from semel.errors import CorruptJournal, NewerFormat
from semel.journal.frames import head as frame_head
from semel.journal.slots import checkpoints, entries, keys
from semel.journal.slots.barrier import Barriers
from semel.journal.slots.checkpoints import Checkpoint
from semel.journal.slots.entries import Entry, Head, Kind
from semel.journal.slots.following import Silence
from semel.journal.slots.history import Standing, may_miss_acknowledged
from semel.journal.slots.landing import Found, judge
from semel.journal.slots.opening import Boundary, look_again
from semel.journal.slots.replay import Replay
from semel.journal.slots.table import SlotTable
from semel.records.checksum import crc32c
from semel.types import Position

F, D, S = Kind.FENCE, Kind.DATA, Kind.SEAL


def entry(
    kind: Kind, epoch: int, position: int = 0, previous: int = 0, payload: bytes = b"x"
) -> Entry:
    body = b""
    if kind is D:
        header, _ = frame_head([payload], len(payload), previous, position, epoch, position)
        body = header + payload
    elif kind is S:
        body = entries.successor_bytes(7)
    at = Position(position)
    return Entry(Head(kind, epoch, epoch, 1, b"n" * 16, at, at, len(body)), body)


# Entries.


def test_an_entry_comes_back_as_it_was_stored() -> None:
    for kind in Kind:
        made = entry(kind, 3)
        stored = entries.encode(made.head) + bytes(made.body)
        found = entries.decode(stored, "j/0000/000000000000")
        assert found.head == made.head
        assert bytes(found.body) == made.body
        if kind is S:
            assert entries.successor_of(found) == 7
    assert entries.successor_of(Entry(made.head, entries.successor_bytes(None))) is None


@pytest.mark.parametrize("at", range(entries.ENTRY_HEADER_SIZE))
def test_no_bit_of_a_header_can_flip_unseen(at: int) -> None:
    stored = bytearray(entries.encode(entry(F, 3).head))
    stored[at] ^= 1
    with pytest.raises((CorruptJournal, NewerFormat), match="j/5"):
        entries.decode(stored, "j/5")


def test_a_frame_that_does_not_follow_or_is_cut_or_altered_is_damage() -> None:
    made = entry(D, 3, position=100, previous=55)
    good = entries.frames_of(made, 55, "j/5")
    assert [(position, bytes(payload)) for position, payload in good.payloads] == [(132, b"x")]
    with pytest.raises(CorruptJournal, match="does not follow"):
        entries.frames_of(made, 56, "j/5")
    with pytest.raises(CorruptJournal, match="no frame begins"):
        entries.frames_of(Entry(made.head, made.body[:20]), 55, "j/5")
    altered = bytearray(made.body)
    altered[-1] ^= 1
    with pytest.raises(CorruptJournal, match="wrong checksum"):
        entries.frames_of(Entry(made.head, altered), 55, "j/5")
    with pytest.raises(CorruptJournal, match="of epoch 3"):
        entries.frames_of(Entry(made.head._replace(epoch=4), made.body), 55, "j/5")


def test_a_newer_format_is_told_from_damage() -> None:
    stored = bytearray(entries.encode(entry(F, 3).head))
    stored[4] = entries.FORMAT + 1
    with pytest.raises(NewerFormat):
        entries.decode(stored, "j/5")


def test_keys_sort_as_their_slots_do() -> None:
    assert keys.slot(10, 5) == "j/000a/000000000005"
    names = [keys.checkpoint(0, slot) for slot in (9, 10, 99, 100, 10**11)]
    assert names == sorted(names)


# Rules 16 and 17.


def counted(history: list[tuple[Kind, int]]) -> tuple[list[int], Standing]:
    """Which of these entries count, and how things stand behind them."""
    replay = Replay(0, 0, Standing(), SlotTable())
    found = []
    for number, (kind, epoch) in enumerate(history):
        before = replay.standing
        replay.add(entry(kind, epoch, before.end, before.checksum))
        if replay.standing != before:
            found.append(number)
    return found, replay.standing


@pytest.mark.parametrize(
    ("history", "which"),
    [
        ([(F, 0), (D, 0), (D, 0)], [0, 1, 2]),
        ([(D, 0)], []),
        ([(F, 0), (F, 1), (D, 0), (D, 1)], [0, 1, 3]),
        ([(F, 0), (F, 0), (D, 0)], [0, 2]),
        ([(F, 5), (F, 3), (D, 3), (D, 5)], [0, 3]),
        ([(F, 0), (D, 0), (S, 0), (D, 0)], [0, 1, 2]),
        ([(F, 0), (S, 0), (S, 0), (F, 1), (D, 1)], [0, 1, 3, 4]),
        ([(F, 0), (F, 1), (S, 0), (D, 1)], [0, 1, 3]),
    ],
)
def test_an_entry_counts_if_its_fence_is_the_latest_and_no_seal_stands_between(
    history: list[tuple[Kind, int]], which: list[int]
) -> None:
    assert counted(history)[0] == which


@pytest.mark.parametrize("seed", range(200))
def test_of_any_history_what_counts_is_what_the_rule_says(seed: int) -> None:
    rng = Random(seed)
    history = [(rng.choice((F, D, D, D, S)), rng.randint(0, 4)) for _ in range(30)]

    def does_count(number: int) -> bool:
        kind, epoch = history[number]
        fences = [
            slot
            for slot in range(number)
            if history[slot][0] is F
            and history[slot][1] > max((e for k, e in history[:slot] if k is F), default=-1)
        ]
        if kind is F:
            return not fences or epoch > history[fences[-1]][1]
        if not fences or history[fences[-1]][1] != epoch:
            return False
        return (S, epoch) not in history[fences[-1] + 1 : number]

    assert counted(history)[0] == [number for number in range(30) if does_count(number)]


@pytest.mark.parametrize(
    ("history", "term", "doubt"),
    [
        ([], 0, False),
        ([(F, 0)], 1, True),
        ([(F, 0), (D, 0)], 1, True),
        ([(F, 0), (D, 0), (S, 0)], 0, False),
        ([(F, 0), (S, 0), (F, 1)], 2, True),
        ([(F, 0), (S, 0), (F, 1), (S, 1)], 0, False),
        ([(F, 0), (F, 1), (S, 0)], 2, True),
        ([(F, 0), (F, 1), (S, 1), (D, 1)], 1, False),
    ],
)
def test_the_term_becomes_the_epoch_unless_a_seal_stands_before_the_fence(
    history: list[tuple[Kind, int]], term: int, doubt: bool
) -> None:
    _, standing = counted(history)
    assert may_miss_acknowledged(standing) == doubt
    epoch = standing.epoch + 1
    assert counted([*history, (F, epoch)])[1].term == term


def test_a_seal_names_whom_it_wants_as_successor() -> None:
    replay = Replay(0, 0, Standing(), SlotTable())
    for kind in (F, S):
        replay.add(entry(kind, 0))
    assert replay.standing.is_sealed
    assert replay.successor == 7


def test_what_does_not_follow_changes_nothing() -> None:
    replay = Replay(0, 0, Standing(), SlotTable())
    replay.add(entry(F, 0))
    before = (replay.slot, replay.standing, len(replay.table))
    with pytest.raises(CorruptJournal, match="begins at 10"):
        replay.add(entry(D, 0, position=10))
    assert (replay.slot, replay.standing, len(replay.table)) == before


# Rule 15.


def test_a_slot_is_ours_by_its_nonce_alone() -> None:
    found = entry(D, 0)
    assert judge(b"n" * 16, found) is Found.OURS
    assert judge(b"m" * 16, found) is Found.FOREIGN
    assert judge(None, found) is Found.FOREIGN
    assert judge(b"n" * 16, None) is Found.FREE


# Rule 18.


def test_a_barrier_is_passed_by_what_was_begun_after_it_was_asked_for() -> None:
    barriers = Barriers()
    told: list[str] = []
    first = barriers.begin()
    barriers.ask(Position(10), 0.0, lambda: told.append("a"))
    assert barriers.proved(first, Position(10)) == [], "it was begun before"
    second = barriers.begin()
    barriers.ask(Position(20), 1.0, lambda: told.append("b"))
    assert barriers.proved(second, Position(9)) == [], "something before it is not durable"
    for tell in barriers.proved(second, Position(30)):
        tell()
    assert told == ["a"]
    assert barriers.oldest_s == 1.0
    third = barriers.begin()
    for tell in barriers.proved(third, Position(20)):
        tell()
    assert told == ["a", "b"]
    assert len(barriers) == 0


# Rule 31.


@pytest.mark.parametrize(
    ("newest", "fence", "began", "verdict"),
    [
        (0, 5, 0, Boundary.HOLDS),
        (3, 5, 3, Boundary.HOLDS),
        (2, 5, 3, Boundary.HOLDS),
        (4, 5, 3, Boundary.REPLAY),
        (5, 5, 3, Boundary.REPLAY),
        (6, 5, 3, Boundary.GIVE_UP),
        (6, 5, 0, Boundary.GIVE_UP),
    ],
)
def test_whoever_wins_a_fence_looks_at_the_boundary_again(
    newest: int, fence: int, began: int, verdict: Boundary
) -> None:
    assert look_again(newest, fence, began) is verdict


def test_only_data_before_the_position_and_the_checkpoint_can_be_collected() -> None:
    table = SlotTable()
    for slot, first, end in ((1, 0, 10), (2, 10, 20), (5, 20, 30), (6, 30, 40)):
        table.add(slot, first, end)
    assert table.collectable(position=30, boundary=100) == [1, 2, 5]
    assert table.collectable(position=29, boundary=100) == [1, 2]
    assert table.collectable(position=40, boundary=5) == [1, 2]
    assert table.collectable(position=40, boundary=6) == [1, 2, 5]
    assert table.collectable(position=0, boundary=100) == []
    table.forget(2)
    assert table.find(15) is None
    place = table.find(25)
    assert place is not None
    assert place.slot == 5
    assert table.find(40) is None


def test_a_checkpoint_comes_back_as_it_was_stored_and_no_bit_of_it_flips_unseen() -> None:
    table = SlotTable()
    table.add(1, 0, 10)
    table.add(4, 10, 20)
    table.add(9, 20, 30)
    standing = Standing(3, 2, False, Position(20), 77)
    made = Checkpoint(5, standing, [0, 10], table, b"opened", [b"state ", b"in pieces"])
    stored = b"".join(checkpoints.encode(made, crc32c(b"state in pieces")))
    found = checkpoints.decode(stored, "ck/5")
    assert found[:2] == made[:2]
    assert list(found.bases) == [0, 10]
    assert len(found.table) == 2, "it knows nothing of slot 9"
    assert (bytes(found.opened), b"".join(found.state)) == (b"opened", b"state in pieces")
    for at in range(len(stored)):
        altered = bytearray(stored)
        altered[at] ^= 1
        with pytest.raises((CorruptJournal, NewerFormat), match="ck/5"):
            checkpoints.decode(altered, "ck/5")
    with pytest.raises(CorruptJournal, match="bytes are there"):
        checkpoints.decode(stored[:-1], "ck/5")


# Rule 33.


def test_only_silence_that_was_seen_counts() -> None:
    silence = Silence(gap_s_max=2.0)
    silence.free(10.0)
    assert silence.lasted_s == 0.0, "what was before the first look was not seen"
    silence.free(11.0)
    silence.free(12.5)
    assert silence.lasted_s == 2.5
    silence.free(100.0)
    assert silence.lasted_s == 4.5, "who was frozen has seen nothing of the time between"
    silence.broken()
    assert silence.lasted_s == 0.0
    silence.free(101.0)
    assert silence.lasted_s == 0.0, "an outage has no end that was seen"
