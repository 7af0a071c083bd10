"""The batch index against lists of what compaction, settling and deletions leave of all batches."""

from collections.abc import Callable, Sequence

import pytest

from journal.index_world import Batch, Oracle, World, finished, make_all_small
from semel.journal import names, sealed
from semel.journal.compacted import Compacted
from semel.journal.index_files import read_index
from semel.journal.rows import Directory, Location, Rows
from semel.log.transactions import Aborted, AbortedIndex


class ForgettingOracle(Oracle):
    """Its `batches` are those that are found: where compaction or settling has put them."""

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[int, list[Batch]] = {}
        """All that were ever written, where they lay in the journal."""
        self.volumes: list[int] = []
        self.settled_end = 0
        self.compacted: dict[int, Compacted] = {}


class ForgettingWorld(World):
    oracle: ForgettingOracle

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.oracle = ForgettingOracle()
        self.next_volume = 0

    def add(self, partition: int, gaps: tuple[int, ...] = (0, 0, 0, 1, 7)) -> None:
        super().add(partition, gaps)
        self.oracle.written.setdefault(partition, []).append(self.batches[partition][-1])

    def acts(self, partition: int) -> list[tuple[float, Callable[[], None]]]:
        choices = super().acts(partition)
        choices += [(0.02, self.settle), (0.02, self.renew), (0.01, self.release)]
        if partition not in self.oracle.dropped:
            choices += [
                (0.04, lambda: self.compact(partition)),
                (0.02, lambda: self.delete_records(partition)),
            ]
        return choices

    def drop(self, partition: int) -> None:
        super().drop(partition)
        self.oracle.written.pop(partition, None)
        self.oracle.compacted.pop(partition, None)
        self.oracle.log_starts.pop(partition, None)

    def restored(self) -> None:
        oracle = self.oracle
        self.index.settle([*map(names.volume_base, oracle.volumes)], oracle.settled_end)
        for partition, compacted in oracle.compacted.items():
            self.index.adopt_compacted(partition, compacted)

    # What is forgotten.

    def start(self, partition: int) -> int:
        return self.oracle.log_starts.get(partition, 0)

    def compacted_end(self, partition: int) -> int:
        compacted = self.oracle.compacted.get(partition)
        return 0 if compacted is None else compacted.end

    def delete_records(self, partition: int) -> None:
        end = self.oracle.ends.get(partition, 0)
        start = self.rng.randint(self.start(partition), max(end, self.start(partition)))
        self.oracle.log_starts[partition] = start
        if partition in self.oracle.compacted and start >= self.compacted_end(partition):
            compacted = self.oracle.compacted.pop(partition)
            self.index.forget_compacted(partition)
            self.leave(partition, lambda batch: batch[0] >= compacted.end)

    def leave(self, partition: int, is_left: Callable[[Batch], bool]) -> None:
        self.batches[partition] = [*filter(is_left, self.batches[partition])]

    def compact(self, partition: int) -> None:
        """Some of what lies before an offset, none of it in the open segment, goes into a volume,
        and perhaps becomes smaller."""
        rng, oracle, start = self.rng, self.oracle, self.start(partition)
        known = self.batches.get(partition, [])
        closed = [batch for batch in known if not oracle.base <= batch[1] < names.VOLUMES_FROM]
        if not closed:
            return
        last = rng.choice(closed)
        end = last[0] + last[4] + 1
        if end <= max(start, self.compacted_end(partition)):
            return
        behind = [batch for batch in known if batch[0] >= end]
        end = rng.randint(end, behind[0][0]) if behind else end
        volume, base = self.new_volume()
        kept: list[Batch] = []
        position = base
        for offset, _, size, timestamp_ms, delta in known:
            if offset < end and offset + delta >= start and rng.random() < 0.6:
                kept.append((offset, position, rng.randint(61, size), timestamp_ms, delta))
                position += kept[-1][2]
        offsets = {batch[0] for batch in kept}
        aborted = oracle.aborted.get(partition, [])
        left = [each for each in aborted if each.marker_offset in offsets]
        self.encode_volume(
            volume, Directory(), {partition: rows_of(kept, left)} if kept else {}, position
        )
        oracle.compacted[partition] = Compacted(end, base if kept else None)
        self.index.adopt_compacted(partition, oracle.compacted[partition])
        self.batches[partition] = kept + behind
        oracle.aborted[partition] = left + [each for each in aborted if each.marker_offset >= end]

    def settle(self) -> None:
        """The oldest sealed segments."""
        self.settle_first(self.rng.randint(0, len(self.oracle.sealed_bases)))

    def settle_first(self, count: int) -> None:
        self.publish()
        oracle = self.oracle
        bases = oracle.sealed_bases
        if count:
            begin, end = oracle.settled_end, [*bases, oracle.base][count]
            oracle.volumes += self.put_together(
                lambda batch: begin <= batch[1] < end, names.index(bases[count - 1])
            )
            oracle.settled_end = end
            del bases[:count]
            self.index.settle([*map(names.volume_base, oracle.volumes)], end)

    def renew(self) -> None:
        """One volume, or some that are neighbours."""
        volumes = self.oracle.volumes
        if volumes:
            first = self.rng.randrange(len(volumes))
            replaced = volumes[first : first + self.rng.randint(1, 3)]
            volumes[first : first + len(replaced)] = self.put_together(
                lambda batch: names.volume_at(batch[1]) in replaced,
                names.volume_index(replaced[-1]),
            )
            bases = [*map(names.volume_base, volumes)]
            self.index.settle(bases, self.oracle.settled_end)

    def put_together(self, is_source: Callable[[Batch], bool], last_source: str) -> list[int]:
        """What lives of some sources becomes a volume, unless it is nothing."""
        volume, base = self.new_volume()
        position = base
        directory = read_index(self.files[last_source], last_source).directory()
        rows_by_partition: dict[int, Rows] = {}
        for partition, known in sorted(self.batches.items()):
            start = max(self.start(partition), self.compacted_end(partition))
            offsets = {batch[0] for batch in known if is_source(batch)}
            moved: list[Batch] = []
            for batch in known:
                if batch[0] in offsets and batch[0] + batch[4] >= start:
                    moved.append((batch[0], position, *batch[2:]))
                    position += batch[2]
            others = [batch for batch in known if batch[0] not in offsets]
            self.batches[partition] = sorted(others + moved)
            aborted = self.oracle.aborted.get(partition, [])
            left = [each for each in aborted if each.marker_offset in offsets]
            gone = {each for each in left if each.marker_offset < start}
            self.oracle.aborted[partition] = [each for each in aborted if each not in gone]
            if moved:
                rows = rows_of(moved, [each for each in left if each not in gone])
                rows_by_partition[partition] = rows
                # What is counted over all sources is the same as before.
                standing = directory.standing(partition)
                assert standing is not None
                rows.earlier_byte_count = standing.byte_count - sum(rows.sizes)
                rows.earlier_aborted_count = standing.aborted_count - len(rows.aborted or ())
                rows.timestamps[-1] = rows.timestamp_max = standing.timestamp_max
        self.encode_volume(volume, directory, rows_by_partition, position)
        return [volume] if rows_by_partition else []

    def new_volume(self) -> tuple[int, int]:
        """Its number, and where it begins."""
        self.next_volume += 1
        return self.next_volume, names.volume_base(self.next_volume)

    def encode_volume(
        self, volume: int, directory: Directory, rows_by_partition: dict[int, Rows], end: int
    ) -> None:
        base = names.volume_base(volume)
        _, content = finished(sealed.encode(directory, rows_by_partition, (), base, end))
        self.files[names.volume_index(volume)] = content

    def release(self) -> None:
        """What nothing lives before."""
        self.publish()
        lives_from = min(
            (
                batch[1]
                for partition, known in self.batches.items()
                for batch in known
                if batch[1] < names.VOLUMES_FROM and batch[0] + batch[4] >= self.start(partition)
            ),
            default=self.oracle.position,
        )
        bases = [*self.oracle.sealed_bases, self.oracle.base]
        first = max((base for base in bases if base <= lives_from), default=bases[0])
        self.index.release_before(first)
        self.oracle.sealed_bases = [base for base in self.oracle.sealed_bases if base >= first]
        for partition in self.batches:
            self.leave(partition, lambda batch: batch[1] >= first)

    # What is found.

    def check_begun(self, partition: int, offset: int) -> None:
        known, start = self.batches.get(partition, []), self.start(partition)
        if any(batch[0] <= offset and batch[0] + batch[4] >= start for batch in known):
            super().check_begun(partition, offset)

    def check_times(self, partition: int) -> None:
        """The largest time of all is remembered, and may lie in what is gone. So what is found may
        come too early, as who asks knows, and never too late."""
        written = self.oracle.written.get(partition, [])
        newest = max((batch[3] for batch in written), default=None)
        assert self.index.timestamp_max(partition) == newest
        timestamp_ms = self.rng.randint(0, newest + 5) if newest else 3
        start = self.some_offset(partition)
        known = [batch for batch in self.batches.get(partition, []) if batch[0] + batch[4] >= start]
        wanted = next((batch for batch in known if batch[3] >= timestamp_ms), None)
        found = self.ask(self.index.first_at_or_after, partition, timestamp_ms, start)
        assert found is None or found in [Location(*batch[:3]) for batch in known]
        if wanted is not None:
            assert found is not None
            assert found.base_offset <= wanted[0]

    def check_position(self, partition: int) -> None:
        base = self.rng.choice([*self.oracle.sealed_bases, self.oracle.base])
        # Also what compaction has replaced: that is what lies there.
        written = self.oracle.written.get(partition, [])
        expected = next((batch[0] for batch in written if batch[1] >= base), None)
        assert self.ask(self.index.offset_behind, partition, base) == expected
        start = self.some_offset(partition)
        in_journal = [
            batch
            for batch in self.batches.get(partition, [])
            if batch[1] < names.VOLUMES_FROM and batch[0] + batch[4] >= start
        ]
        position = in_journal[0][1] if in_journal else None
        assert self.ask(self.index.position_in_journal, partition, start) == position
        size = sum(batch[2] for batch in in_journal if batch[1] < base)
        assert self.ask(self.index.bytes_in_journal, partition, start, base) == size


def rows_of(batches: Sequence[Batch], aborted: Sequence[Aborted]) -> Rows:
    rows = Rows(None)
    for base_offset, position, size, timestamp_ms, delta in batches:
        rows.timestamp_max = max(rows.timestamp_max, timestamp_ms)
        rows.timestamps.append(rows.timestamp_max)
        rows.base_offsets.append(base_offset)
        rows.positions.append(position)
        rows.sizes.append(size)
        rows.last_offset_deltas.append(delta)
    if aborted:
        rows.aborted = AbortedIndex()
        for each in aborted:
            rows.aborted.add(each)
    return rows


@pytest.mark.parametrize("is_cold", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_any_lookup_agrees_with_a_list_of_what_is_left(
    seed: int, is_cold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_all_small(monkeypatch)
    world = ForgettingWorld(seed)
    world.is_cold = is_cold
    partition_count = world.rng.choice((1, 3, 12))
    for _ in range(500):
        partition = min(world.rng.randrange(partition_count), world.rng.randrange(partition_count))
        world.do_something(partition)
    for partition in range(partition_count):
        if partition not in world.oracle.dropped:
            world.check(partition)


def test_volumes_in_which_nothing_is_left_are_passed_over_with_few_reads() -> None:
    world = ForgettingWorld(1)
    for _ in range(300):
        world.add(0)
        world.add(1)
        world.seal()
    newest, newest_ms = Location(*world.batches[1][-1][:3]), world.batches[1][-1][3]
    offset = world.oracle.log_starts[1] = newest.base_offset
    for _ in range(299):
        world.settle_first(1)
    questions: list[tuple[Callable[[], Location | int | None], Location | int | None]] = [
        (lambda: world.index.first_at_or_after(1, newest_ms - 1, offset), newest),
        (lambda: world.index.first_at_or_after(1, 0, offset), newest),
        (lambda: world.index.offset_with_bytes(1, 1, offset), offset),
        (lambda: world.index.offset_with_bytes(1, 10_000, offset), None),
    ]
    for question, answer in questions:
        world.reopen()
        world.read_count = 0
        assert question() == answer
        # Halving takes nine of three hundred, each with a header, checksums and a few pages.
        assert world.read_count <= 9 * 5


@pytest.mark.parametrize("is_any_behind", [False, True])
def test_what_compaction_has_replaced_is_not_found_where_no_index_tells_its_end(
    is_any_behind: bool,
) -> None:
    """Indexes of older formats do not."""
    world = ForgettingWorld(1)
    for row in range(2):
        world.index.add(0, 10 * row, 100 * row, 100, row)
    world.oracle.position = 200
    world.seal()
    world.publish()
    world.index.adopt_compacted(0, Compacted(20, None))
    behind = []
    if is_any_behind:
        world.index.add(0, 20, 300, 50, 2)
        behind = [Location(20, 300, 50)]
    for offset in (0, 15, 20):
        assert world.index.batches(0, offset, 100, 10) == behind
        assert world.index.find(0, offset) == (behind[0] if behind else None)
        assert world.index.bytes_from(0, offset) == 50 * len(behind)
