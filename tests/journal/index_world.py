"""A batch index with its files in a dict, beside a plain list of all batches."""

from collections.abc import Callable, Generator
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple, TypeVar

import pytest

from semel.journal import containers, names, sealed, stretch
from semel.journal import rows as rows_module
from semel.journal.index import BatchIndex
from semel.journal.index_files import read_index
from semel.journal.pages import NotLoaded
from semel.journal.rows import Location
from semel.log.transactions import Aborted
from semel.types import Offset, ProducerId

Batch = tuple[int, int, int, int, int]
"""Base offset, position, size, timestamp, last offset delta."""
Result = TypeVar("Result")
Encoding = Generator[None, None, bytearray]


def nothing(name: str, offset: int, size: int) -> bytes:
    return b""


def finished(steps: Generator[None, None, Result]) -> Result:
    while True:
        try:
            next(steps)
        except StopIteration as stopped:
            found: Result = stopped.value
            return found


def _given(content: bytearray) -> Encoding:
    """It is encoded already."""
    yield
    return content


class Oracle:
    """All there is, as lists."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Batch]] = {}
        self.ends: dict[int, int] = {}
        """The offset behind all of each partition."""
        self.log_starts: dict[int, int] = {}
        self.aborted: dict[int, list[Aborted]] = {}
        self.base = 0
        self.position = 0
        self.sealed_bases: list[int] = []
        self.dropped: set[int] = set()


class Mark(NamedTuple):
    """A checkpoint in the making."""

    encoding: Encoding
    oracle: Oracle


class World:
    """An index with its files in a dict, and the oracle beside it."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.files: dict[str, bytes | bytearray] = {}
        self.is_cold = False
        self.read_count = 0
        self.index = BatchIndex(self.read_now)
        self.oracle = Oracle()
        self.mark: Mark | None = None

    def read_now(self, name: str, offset: int, size: int) -> bytes | bytearray | None:
        if self.is_cold:
            return None
        self.read_count += 1
        return self.files[name][offset : offset + size]

    def ask(self, question: Callable[..., Result], *arguments: Any) -> Result:
        """As often as it takes, with the bytes that it misses."""
        while True:
            try:
                return question(*arguments)
            except NotLoaded as missing:
                stored = self.files[missing.name]
                missing.keep(stored[missing.offset : missing.offset + missing.size])

    @property
    def batches(self) -> dict[int, list[Batch]]:
        return self.oracle.batches

    def add(self, partition: int, gaps: tuple[int, ...] = (0, 0, 0, 1, 7)) -> None:
        oracle, rng = self.oracle, self.rng
        known = oracle.batches.setdefault(partition, [])
        gap = rng.choice(gaps)
        end = oracle.ends.get(partition)
        base_offset = rng.choice((0, 7)) if end is None else end + gap
        size = rng.randint(61, 300)
        oracle.position += rng.choice((0, 36, 5000))
        timestamp_ms = rng.randint(0, 1000) + oracle.position
        batch = (base_offset, oracle.position, size, timestamp_ms, rng.randint(0, 4))
        known.append(batch)
        oracle.ends[partition] = base_offset + batch[4] + 1
        self.index.add(partition, *batch)
        oracle.position += size
        if rng.random() < 0.3:
            self.abort(partition, base_offset)

    def abort(self, partition: int, marker_offset: int) -> None:
        """The batch was the marker of a transaction, which may have begun in any segment."""
        known = self.oracle.aborted.setdefault(partition, [])
        floor_before = known[-1].floor if known else 0
        first = self.rng.randint(min(floor_before, marker_offset), marker_offset)
        floor = self.rng.choice((floor_before, marker_offset + 1))
        aborted = Aborted(
            ProducerId(self.rng.randrange(3)), Offset(first), Offset(marker_offset), Offset(floor)
        )
        known.append(aborted)
        self.index.add_aborted(partition, aborted)

    def seal(self) -> None:
        oracle = self.oracle
        oracle.position += 10
        self.index.seal(oracle.base, oracle.position)
        oracle.sealed_bases.append(oracle.base)
        oracle.base = oracle.position

    def publish(self) -> None:
        for each in self.index.unpublished():
            self.files[names.index(each.base)] = finished(each.encode())
            self.index.published(each.base)

    def hold(self) -> None:
        """Frames of the last segments are held in memory from now on, or fewer than before."""
        bases = [-1, *self.oracle.sealed_bases[-3:], self.oracle.position]
        self.index.not_held_to(self.rng.choice(bases))

    def encode_a_part(self) -> None:
        """And leave it, as a job does that fails."""
        for each in self.index.unpublished():
            steps = each.encode()
            for _ in range(self.rng.randint(0, 8)):
                if next(steps, steps) is steps:
                    break

    def set_mark(self) -> None:
        encoding = self.index.encode_open(self.oracle.base, self.oracle.position)
        self.mark = Mark(encoding, deepcopy(self.oracle))

    def encode_more_of_mark(self) -> None:
        """A job may have taken some steps when more is added."""
        assert self.mark is not None
        try:
            next(self.mark.encoding)
        except StopIteration as stopped:
            content: bytearray = stopped.value
            self.mark = Mark(_given(content), self.mark.oracle)

    def reopen(self) -> None:
        """As a start from a checkpoint taken now."""
        self.set_mark()
        self.reopen_at_mark()

    def reopen_at_mark(self) -> None:
        """All behind the mark is lost."""
        assert self.mark is not None
        self.publish()
        encoding, oracle = self.mark
        opened = finished(encoding)
        self.index = BatchIndex(self.read_now)
        self.index.restore(oracle.sealed_bases, read_index(opened, "opened"))
        self.oracle, self.mark = oracle, None
        self.restored()

    def restored(self) -> None:
        """What a checkpoint says besides is told to the index."""

    def drop(self, partition: int) -> None:
        self.index.drop([partition])
        self.oracle.batches.pop(partition, None)
        self.oracle.aborted.pop(partition, None)
        self.oracle.ends.pop(partition, None)
        self.oracle.dropped.add(partition)

    def acts(self, partition: int) -> list[tuple[float, Callable[[], None]]]:
        """What can be done, and how often it is."""
        choices: list[tuple[float, Callable[[], None]]] = [
            (0.05, self.seal),
            (0.03, self.publish),
            (0.01, self.reopen),
            (0.015, self.encode_a_part),
            (0.02, self.set_mark),
            (0.02, self.hold),
        ]
        if self.mark is not None:
            choices += [(0.01, self.reopen_at_mark), (0.03, self.encode_more_of_mark)]
        if partition not in self.oracle.dropped:
            choices += [
                (0.005, lambda: self.drop(partition)),
                (0.45, lambda: self.add(partition)),
                (0.4, lambda: self.check(partition)),
            ]
        return choices

    def do_something(self, partition: int) -> None:
        weights, acts = zip(*self.acts(partition), strict=True)
        (act,) = self.rng.choices(acts, weights)
        act()

    def some_offset(self, partition: int) -> int:
        """That may be asked for, also behind the end."""
        start = self.oracle.log_starts.get(partition, 0)
        end = self.oracle.ends.get(partition)
        return 3 if end is None else self.rng.randint(start, max(start, end + 5))

    def check(self, partition: int) -> None:
        if self.rng.random() < 0.3:
            self.index.sum_up(partition)
        self.check_bytes(partition, self.some_offset(partition))
        self.check_offset(partition, self.some_offset(partition))
        self.check_times(partition)
        self.check_position(partition)
        self.check_aborted(partition)

    def check_bytes(self, partition: int, offset: int) -> None:
        known = self.batches.get(partition, [])
        first = self.ask(self.index.find, partition, offset)
        rest = [batch for batch in known if first is not None and batch[0] >= first.base_offset]
        size = sum(batch[2] for batch in rest)
        assert self.ask(self.index.bytes_from, partition, offset) == size
        if rest:
            # So many bytes, or any number above those of the batches behind the first.
            wanted = size - self.rng.randrange(rest[0][2])
            assert self.ask(self.index.offset_with_bytes, partition, wanted, offset) == rest[0][0]
        assert self.ask(self.index.offset_with_bytes, partition, size + 1, offset) is None

    def check_offset(self, partition: int, offset: int) -> None:
        known = self.batches.get(partition, [])
        self.check_begun(partition, offset)
        found = next((batch for batch in known if batch[0] + batch[4] >= offset), None)
        expected = Location(*found[:3]) if found else None
        assert self.ask(self.index.find, partition, offset) == expected
        rest = [Location(*batch[:3]) for batch in (known[known.index(found) :] if found else [])]
        assert self.ask(self.index.batches, partition, offset, 2**60, 2**60) == rest
        assert self.ask(self.index.batches, partition, offset, 2**60, 3) == rest[:3]
        listed = self.ask(self.index.extents, partition, offset, 2**60, 2**60)
        assert listed == [each[1:] for each in rest]

    def check_begun(self, partition: int, offset: int) -> None:
        before = [batch for batch in self.batches.get(partition, []) if batch[0] <= offset]
        begun = Location(*before[-1][:3]) if before else None
        assert self.ask(self.index.last_begun, partition, offset) == begun

    def check_times(self, partition: int) -> None:
        known = self.batches.get(partition, [])
        newest = max((batch[3] for batch in known), default=None)
        assert self.index.timestamp_max(partition) == newest
        timestamp_ms = self.rng.randint(0, newest + 5) if newest else 3
        found = next((batch for batch in known if batch[3] >= timestamp_ms), None)
        expected = Location(*found[:3]) if found else None
        assert self.ask(self.index.first_at_or_after, partition, timestamp_ms, 0) == expected

    def check_position(self, partition: int) -> None:
        base = self.rng.choice([*self.oracle.sealed_bases, self.oracle.base])
        known = self.batches.get(partition, [])
        expected = next((batch[0] for batch in known if batch[1] >= base), None)
        assert self.ask(self.index.offset_behind, partition, base) == expected

    def check_aborted(self, partition: int) -> None:
        start = self.some_offset(partition)
        end = start + self.rng.choice((1, 10, 10_000))
        overlapping = []
        for aborted in self.oracle.aborted.get(partition, []):
            if aborted.marker_offset >= start:
                if aborted.first_offset < end:
                    overlapping.append((aborted.first_offset, aborted.producer_id))
                if aborted.floor >= end:
                    break
        found = self.ask(self.index.aborted, partition, start, end)
        assert [(each.first_offset, each.producer_id) for each in found] == sorted(overlapping)


def make_all_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that little is needed to come to the end of anything."""
    monkeypatch.setattr(containers, "INDEXES_MAX", 3)
    monkeypatch.setattr(stretch, "ROWS_CUT_MIN", 1)
    monkeypatch.setattr(stretch, "ROWS_CUT_MAX", 2)
    monkeypatch.setattr(sealed, "PARTITIONS_AT_ONCE", 2)
    monkeypatch.setattr(rows_module, "SLOTS_AT_ONCE", 1)
    for module in (rows_module, sealed, stretch):
        monkeypatch.setattr(module, "ROWS_PER_SUM", 3)
    monkeypatch.setattr(rows_module, "ROWS_SUMMED_AT_ONCE", 6)
