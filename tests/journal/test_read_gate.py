"""The gate before the disk, in one thread: whoever waits is told there what happens meanwhile."""

import errno
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from semel.journal.file.disk import FileDevice
from semel.journal.file.read_gate import CALM_AFTER, LARGE_SIZE, SMALL_SIZE, Piece, ReadGate

Step = Callable[[], None]
LEFT = 10 * LARGE_SIZE


class Told(threading.Condition):
    """Each wait is one step of what is to happen; who waits behind the last waits for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert self.steps, "nobody would wake who waits here"
        self.steps.pop(0)()
        return True


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def gate(told: Told) -> ReadGate:
    return ReadGate(told)


def sync(gate: ReadGate) -> None:
    gate.sync_begins()
    gate.sync_ends()


def read(gate: ReadGate) -> Piece:
    with gate.piece(LEFT) as piece:
        return piece


def test_without_syncs_many_read_large_pieces_at_once(gate: ReadGate) -> None:
    with gate.piece(LEFT) as one, gate.piece(LEFT) as other:
        assert one == other == Piece(LARGE_SIZE, is_alone=False)


def test_behind_a_sync_pieces_are_small_and_none_is_longer_than_what_is_left(
    gate: ReadGate,
) -> None:
    sync(gate)
    assert read(gate) == Piece(SMALL_SIZE, is_alone=True)
    with gate.piece(10) as piece:
        assert piece.size == 10


def test_a_piece_begins_when_the_sync_under_way_has_ended(told: Told, gate: ReadGate) -> None:
    gate.sync_begins()
    told.steps = [lambda: None, gate.sync_ends]
    read(gate)
    assert not told.steps


def test_a_piece_waits_for_one_sync_even_if_the_next_follows_at_once(
    told: Told, gate: ReadGate
) -> None:
    def end_and_begin() -> None:
        gate.sync_ends()
        gate.sync_begins()

    gate.sync_begins()
    for _ in range(3):
        told.steps = [end_and_begin]
        read(gate)
        assert not told.steps


def test_a_sync_never_waits_for_a_piece(gate: ReadGate) -> None:
    sync(gate)
    with gate.piece(LEFT):
        sync(gate)


def end(piece: AbstractContextManager[Piece]) -> None:
    piece.__exit__(None, None, None)


def begin(gate: ReadGate) -> AbstractContextManager[Piece]:
    piece = gate.piece(LEFT)
    piece.__enter__()
    return piece


def test_pieces_are_read_one_at_a_time(told: Told, gate: ReadGate) -> None:
    sync(gate)
    first = begin(gate)
    told.steps = [lambda: None, lambda: end(first)]
    read(gate)
    assert not told.steps


def test_who_has_asked_first_reads_first(told: Told, gate: ReadGate) -> None:
    class StillWaitingError(Exception):
        pass

    def give_up() -> None:
        raise StillWaitingError

    def another_asks() -> None:
        told.steps = [lambda: end(first), give_up]
        with pytest.raises(StillWaitingError):
            begin(gate)

    sync(gate)
    first = begin(gate)
    told.steps = [another_asks]
    begin(gate)
    assert not told.steps


def test_a_failed_read_gives_its_turn_free(gate: ReadGate) -> None:
    sync(gate)
    with pytest.raises(OSError, match="I/O"), gate.piece(LEFT):
        raise OSError(errno.EIO, "I/O")
    read(gate)


def test_all_read_at_once_again_when_many_pieces_met_no_sync(gate: ReadGate) -> None:
    sync(gate)
    for _ in range(CALM_AFTER - 1):
        assert read(gate).is_alone
    sync(gate)
    for _ in range(CALM_AFTER):
        assert read(gate).is_alone
    assert not read(gate).is_alone


def test_a_sync_under_way_for_long_is_no_calm(told: Told, gate: ReadGate) -> None:
    sync(gate)
    for _ in range(CALM_AFTER):
        read(gate)
    gate.sync_begins()
    told.steps = [gate.sync_ends]
    assert read(gate).is_alone
    assert not told.steps


@pytest.mark.parametrize("is_calm", [True, False])
def test_pieces_make_a_whole_up_to_the_end_of_the_file(tmp_path: Path, is_calm: bool) -> None:
    stored = os.urandom(2 * LARGE_SIZE + 5)
    (tmp_path / "old").write_bytes(stored)
    device = FileDevice(tmp_path)
    if not is_calm:
        sync(device._gate)
    assert device._read_apart("old", 3, len(stored) - 3) == stored[3:]
    assert device._read_apart("old", 3, len(stored)) == stored[3:]
    assert device._read_apart("old", len(stored), 10) == b""
