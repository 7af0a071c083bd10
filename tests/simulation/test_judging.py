"""The judge names each anomaly in a history made by hand, and none in a history without any."""

from pathlib import Path

import pytest

from semel.types import TopicPartition
from semel.verify.__main__ import main
from semel.verify.judging import operations
from semel.verify.judging.anomalies import DEFINITIONS
from semel.verify.judging.judge import Verdict, judge
from semel.verify.judging.operations import (
    Any,
    AtRest,
    Commit,
    End,
    EndRead,
    EpochRead,
    Fault,
    Init,
    Inputs,
    Known,
    OffsetRead,
    Poll,
    Recorder,
    Seen,
    Send,
    Times,
    UnreadableHistory,
)

P = TopicPartition("t", 0)
Q = TopicPartition("u", 0)


def at(second: float) -> Times:
    """Asked and answered within a tenth of a second."""
    return Times(second, second + 0.1)


def send(
    second: float,
    value: str,
    offset: int | None,
    transaction: str | None = None,
    known: Known = Known.OK,
    partition: TopicPartition = P,
    process: str = "p",
) -> Send:
    return Send(at(second), process, partition, value, known, offset, transaction)


def poll(
    second: float,
    *records: tuple[int, str],
    partition: TopicPartition = P,
    process: str = "c",
    transaction: str | None = None,
    is_committed: bool = True,
    has_moved: bool = False,
) -> Poll:
    seen = tuple(Seen(*record) for record in records)
    return Poll(at(second), process, partition, seen, is_committed, has_moved, transaction)


def end(second: float, transaction: str, known: Known = Known.OK, *, is_commit: bool = True) -> End:
    return End(at(second), "p", transaction, known, is_commit)


def rest(*records: tuple[int, str], partition: TopicPartition = P, stable: int = 10) -> AtRest:
    return AtRest(partition, tuple(Seen(*record) for record in records), 10, stable)


PLAIN = (send(1, "a", 0), send(2, "b", 1))
GOOD: tuple[Any, ...] = (
    *PLAIN,
    send(3, "lost", None, known=Known.UNKNOWN),
    send(3, "x0", 2, "x"),
    send(3, "x1", 0, "x", partition=Q),
    end(4, "x"),
    send(5, "y0", 4, "y"),
    end(6, "y", is_commit=False),
    send(7, "z0", 6, "z"),
    end(8, "z", Known.UNKNOWN),
    Init(at(0), "p", "id"),
    Fault(3.0, "node 1 killed"),
    Inputs("x", "g", P, 2, (0, 1)),
    Commit(at(4), "h", P, 3),
    OffsetRead(at(5), "h", P, 3),
    OffsetRead(at(5), "g", P, 2),
    EndRead(at(2.5), P, 2),
    EndRead(at(5), P, 4, is_stable=True),
    EpochRead(at(1), P, 0),
    EpochRead(at(5), P, 1),
    poll(3, (0, "a"), (1, "b")),
    poll(6, (2, "x0")),
    poll(9, (0, "a"), has_moved=True),
    poll(9, (4, "y0"), process="d", is_committed=False),
    rest((0, "a"), (1, "b"), (2, "x0")),
    rest((0, "x1"), partition=Q),
)

CYCLE = (
    send(1, "x0", 0, "x"),
    send(1, "y0", 0, "y", partition=Q),
    poll(2, (0, "x0"), transaction="y"),
    poll(2, (0, "y0"), partition=Q, transaction="x"),
    end(3, "x"),
    end(3, "y"),
    rest((0, "x0")),
    rest((0, "y0"), partition=Q),
)
COPIED = (send(1, "x0", 0, "x", partition=Q), end(4, "x"), rest((0, "x0"), partition=Q))
BAD: list[tuple[str, tuple[Any, ...]]] = [
    ("inconsistent-offsets", (send(1, "a", 0), poll(2, (0, "b")), rest((0, "b"), (1, "a")))),
    ("inconsistent-offsets", (poll(1, (0, "a")), poll(2, (0, "b"), process="d"))),
    ("duplicate", (send(1, "a", 0), rest((0, "a"), (1, "a")))),
    ("duplicate", (rest((0, "a")), rest((0, "a"), partition=Q))),
    ("lost-write", (*PLAIN, rest((1, "b")))),
    ("lost-write", (send(1, "x0", 0, "x"), end(2, "x"), rest((1, "b")))),
    ("unseen", (*PLAIN, rest((0, "a")))),
    ("unseen", (*PLAIN, poll(3, (0, "a"), (1, "b")), rest())),
    ("G1a", (send(1, "x0", 0, "x"), end(2, "x", is_commit=False), poll(3, (0, "x0")))),
    ("G1a", (send(1, "x0", 0, "x"), end(2, "x", Known.FAILED), rest((0, "x0")))),
    ("G1a", (send(1, "a", None, known=Known.FAILED), rest((0, "a")))),
    ("precommitted-read", (send(1, "x0", 0, "x"), poll(2, (0, "x0"), transaction="x"))),
    ("G1c", CYCLE),
    ("poll-skip", (poll(1, (0, "a")), poll(2, (2, "c")), rest((0, "a"), (1, "b"), (2, "c")))),
    ("nonmonotonic-poll", (poll(1, (1, "b")), poll(2, (0, "a")))),
    (
        "int-poll-skip",
        (
            poll(1, (0, "a"), transaction="x"),
            poll(2, (2, "c"), transaction="x"),
            rest((0, "a"), (1, "b"), (2, "c")),
        ),
    ),
    (
        "int-nonmonotonic-poll",
        (poll(1, (1, "b"), transaction="x"), poll(2, (0, "a"), transaction="x")),
    ),
    ("nonmonotonic-send", (send(1, "a", 1), send(2, "b", 0), rest((0, "b"), (1, "a")))),
    (
        "int-nonmonotonic-send",
        (
            send(1, "x0", 1, "x"),
            send(2, "x1", 0, "x"),
            end(3, "x"),
            rest((0, "x1"), (1, "x0")),
        ),
    ),
    (
        "torn-transaction",
        (
            send(1, "x0", 0, "x"),
            send(1, "x1", 0, "x", partition=Q),
            end(2, "x", Known.UNKNOWN),
            rest((0, "x0")),
            rest(partition=Q),
        ),
    ),
    (
        "torn-transaction",
        (
            *PLAIN,
            *COPIED,
            Inputs("x", "g", P, 2, (0, 1)),
            OffsetRead(at(9), "g", P, 1),
            rest((0, "a"), (1, "b")),
        ),
    ),
    (
        "double-input",
        (
            *PLAIN,
            *COPIED,
            Inputs("x", "g", P, 1, (0,)),
            OffsetRead(at(9), "g", P, 2),
            rest((0, "a"), (1, "b")),
        ),
    ),
    (
        "double-input",
        (
            *PLAIN,
            *COPIED,
            send(5, "y0", 1, "y", partition=Q),
            end(6, "y"),
            rest((0, "x0"), (1, "y0"), partition=Q),
            Inputs("x", "g", P, 2, (0, 1)),
            Inputs("y", "g", P, 2, (1,)),
            OffsetRead(at(9), "g", P, 2),
            rest((0, "a"), (1, "b")),
        ),
    ),
    ("stuck-LSO", (send(1, "a", 0), rest((0, "a"), stable=9))),
    (
        "zombie-write",
        (
            Init(at(1), "p", "id"),
            Init(at(2), "q", "id"),
            send(3, "x0", 0, "x"),
            rest((0, "x0")),
        ),
    ),
    ("stale-offset", (Commit(at(1), "g", P, 5), OffsetRead(at(2), "g", P, 4))),
    ("stale-offset", (OffsetRead(at(1), "g", P, 5), OffsetRead(at(2), "g", P, -1))),
    (
        "stale-offset",
        (
            send(1, "x0", 0, "x"),
            Inputs("x", "g", Q, 4, ()),
            end(2, "x"),
            OffsetRead(at(3), "g", Q, 3),
            rest((0, "x0")),
        ),
    ),
    ("stale-end", (*PLAIN, EndRead(at(3), P, 1), rest((0, "a"), (1, "b")))),
    ("stale-end", (EndRead(at(1), P, 5), EndRead(at(2), P, 4))),
    (
        "falling-LSO",
        (EndRead(at(1), P, 5, is_stable=True), EndRead(at(2), P, 4, is_stable=True)),
    ),
    ("falling-epoch", (EpochRead(at(1), P, 3), EpochRead(at(2), P, 2))),
]


def test_a_history_without_anomalies_has_none() -> None:
    judgement = judge(GOOD)
    assert judgement.anomalies == []
    assert judgement.verdict is Verdict.HELD
    assert judgement.counts["transactions committed"] == 1
    assert judgement.counts["sends acknowledged"] == 6


@pytest.mark.parametrize(("name", "history"), BAD, ids=lambda value: str(value)[:30])
def test_it_names(name: str, history: tuple[Any, ...]) -> None:
    judgement = judge(history)
    assert name in {anomaly.name for anomaly in judgement.anomalies}
    assert judgement.verdict is Verdict.BROKEN
    assert any(line.startswith(f"{name} (") for line in judgement.lines())


def test_every_anomaly_that_has_a_name_is_found_in_one_of_these() -> None:
    assert {name for name, _ in BAD} == set(DEFINITIONS)


def test_answers_that_cross_each_other_are_not_judged() -> None:
    crossing = (Commit(Times(1, 3), "g", P, 5), OffsetRead(Times(2, 4), "g", P, 4))
    assert judge(crossing).anomalies == []


def test_who_read_nothing_at_rest_cannot_tell() -> None:
    assert judge(PLAIN).verdict is Verdict.UNDECIDED


def test_what_was_noted_in_a_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "history"
    recorder = Recorder(path)
    for operation in GOOD:
        recorder.note(operation)
    recorder.close()
    assert operations.read([path]) == list(GOOD)


def test_a_last_line_that_was_cut_is_none_and_any_other_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history"
    recorder = Recorder(path)
    recorder.note(PLAIN[0])
    recorder.close()
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-9])
    assert operations.read([path]) == [PLAIN[0]]
    path.write_bytes(whole[:-9] + b"\n" + whole)
    with pytest.raises(UnreadableHistory, match="line 1"):
        operations.read([path])


@pytest.mark.parametrize(
    ("history", "code", "word"),
    [(GOOD, 0, "held"), (BAD[0][1], 1, "inconsistent-offsets"), (PLAIN, 2, "undecided")],
)
def test_the_command_judges_files(
    history: tuple[Any, ...],
    code: int,
    word: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    for place, operation in enumerate(history):
        recorder = Recorder(paths[place % 2])
        recorder.note(operation)
        recorder.close()
    assert main(["--check", *map(str, paths)]) == code
    assert word in capsys.readouterr().out
