"""What a client asked for and was told, one operation to a line of a file.

Any client can say so much, whatever it is written in:

    {"op":"send","span":[1.0,1.02],"process":"p1","partition":["t",0],"value":"a","known":"ok","offset":4}
    {"op":"poll","span":[1.1,1.13],"process":"c1","partition":["t",0],"records":[[4,"a"]]}
    {"op":"end","span":[1.2,1.25],"process":"p1","transaction":"x7","known":"ok","is_commit":true}

Times are seconds of one monotonic clock. Values are unique over all that is sent. A *process* does
one thing after the other; one that starts anew has a new name.
"""

import threading
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import msgspec

from semel.types import TopicPartition


class Known(Enum):
    """What whoever asked knows of what it asked for."""

    OK = "ok"
    FAILED = "failed"
    """Surely not done, now or later."""
    UNKNOWN = "unknown"


class Times(NamedTuple):
    """Of the request and of the answer."""

    began_s: float
    ended_s: float


class Seen(NamedTuple):
    """A record as someone was shown it."""

    offset: int
    value: str


class Operation(msgspec.Struct, frozen=True, tag_field="op", omit_defaults=True):
    pass


class Send(Operation, frozen=True, tag="send"):
    """One record."""

    span: Times
    process: str
    partition: TopicPartition
    value: str
    known: Known
    """Of a part of a transaction: whether it was acknowledged; whether it counts is told by the
    transaction's end."""
    offset: int | None = None
    transaction: str | None = None


class Poll(Operation, frozen=True, tag="poll"):
    """What a reader was handed of one partition, in this order."""

    span: Times
    process: str
    partition: TopicPartition
    records: tuple[Seen, ...]
    is_committed: bool = True
    """Under read_committed."""
    has_moved: bool = False
    """It was given the partition, or sought, since it polled before: it may be anywhere."""
    transaction: str | None = None
    """In which it polled."""


class End(Operation, frozen=True, tag="end"):
    """Of a transaction. One that has none may have any outcome."""

    span: Times
    process: str
    transaction: str
    known: Known
    is_commit: bool = True


class Init(Operation, frozen=True, tag="init"):
    """A process was given an id's newest epoch: whoever had it before is fenced."""

    span: Times
    process: str
    transactional_id: str


class Inputs(Operation, frozen=True, tag="inputs"):
    """A transaction commits the offset behind what it has read of one partition."""

    transaction: str
    group: str
    partition: TopicPartition
    offset: int
    read: tuple[int, ...]
    """Offsets of the records that were copied in it."""


class Commit(Operation, frozen=True, tag="commit"):
    """OffsetCommit, or the end of a transaction that was told to be committed."""

    span: Times
    group: str
    partition: TopicPartition
    offset: int
    known: Known = Known.OK


class OffsetRead(Operation, frozen=True, tag="offset_read"):
    """OffsetFetch."""

    span: Times
    group: str
    partition: TopicPartition
    offset: int
    node: str = ""
    """Who answered."""


class EndRead(Operation, frozen=True, tag="end_read"):
    """ListOffsets, or what a fetch said besides."""

    span: Times
    partition: TopicPartition
    offset: int
    is_stable: bool = False
    """The end for read_committed readers."""
    node: str = ""


class EpochRead(Operation, frozen=True, tag="epoch_read"):
    """Metadata, or whatever else names the leader epoch of a partition, told by its leader."""

    span: Times
    partition: TopicPartition
    leader_epoch: int
    node: str = ""


class AtRest(Operation, frozen=True, tag="at_rest"):
    """A whole partition under read_committed, when nobody writes any more and all is healed."""

    partition: TopicPartition
    records: tuple[Seen, ...]
    end_offset: int
    stable_offset: int
    start_offset: int = 0


class Fault(Operation, frozen=True, tag="fault"):
    """What was done to the cluster: no part of any judgement, and shown beside it."""

    at_s: float
    what: str


Any = Send | Poll | End | Init | Inputs | Commit | OffsetRead | EndRead | EpochRead | AtRest | Fault
_DECODER = msgspec.json.Decoder(Any)


def decode(line: bytes) -> Any:
    """Raises msgspec.MsgspecError."""
    operation: Any = _DECODER.decode(line)
    return operation


class Recorder:
    """Appends to a file, from any thread; each line is whole when `note` returns."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._lock = threading.Lock()

    def note(self, operation: Any) -> None:
        line = msgspec.json.encode(operation) + b"\n"
        with self._lock:
            self._file.write(line)

    def close(self) -> None:
        self._file.close()


class UnreadableHistory(Exception):
    """A line is no operation."""


def read(paths: Iterable[Path]) -> list[Any]:
    """Of several files, each of which has been written by another process, perhaps until it was
    killed: a last line that is cut is none. Raises UnreadableHistory."""
    return [operation for path in paths for operation in _lines(path)]


def _lines(path: Path) -> Iterator[Any]:
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            yield decode(line)
        except msgspec.MsgspecError as error:
            if number == len(lines):
                return
            raise UnreadableHistory(f"{path}, line {number}: {error}") from error
