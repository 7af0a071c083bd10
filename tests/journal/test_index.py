"""The batch index against a plain list of all batches, over many sealed segments."""

import struct
from array import array

import pytest

from journal.index_world import World, finished, make_all_small, nothing
from semel.errors import CorruptJournal
from semel.journal import containers, names, pages, sealed, stretch
from semel.journal import rows as rows_module
from semel.journal.compacted import Compacted
from semel.journal.index import BatchIndex
from semel.journal.index_files import read_index
from semel.journal.index_in_memory import directory_of
from semel.journal.pages import PAGE_SIZE, NotLoaded, Pages
from semel.journal.rows import Location
from semel.journal.stretch import Numbers
from semel.records.checksum import crc32c
from support.compiled import plain_python


@pytest.mark.parametrize("is_cold", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_any_lookup_agrees_with_a_list_of_all_batches(
    seed: int, is_cold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up_all(seed, is_cold, monkeypatch)


@plain_python
@pytest.mark.parametrize("is_cold", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_so_it_does_if_columns_go_over_many_pages(
    seed: int, is_cold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (pages, sealed):
        monkeypatch.setattr(module, "PAGE_SIZE", 64)
        monkeypatch.setattr(module, "WORDS_PER_PAGE", 8)
    look_up_all(seed, is_cold, monkeypatch)


def look_up_all(seed: int, is_cold: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    make_all_small(monkeypatch)
    world = World(seed)
    world.is_cold = is_cold
    partition_count = world.rng.choice((1, 3, 12))
    for _ in range(500):
        # Some partitions are seldom written, so that most segments have nothing of them.
        partition = min(world.rng.randrange(partition_count), world.rng.randrange(partition_count))
        world.do_something(partition)
    for partition in range(partition_count):
        if partition not in world.oracle.dropped:
            world.check(partition)


def test_sealing_encodes_nothing() -> None:
    """Law: it takes as long with many partitions as with few."""
    world = World(1)
    for partition in range(50):
        world.add(partition)
    rows = world.index._open
    world.seal()
    (unpublished,) = world.index.unpublished()
    assert unpublished.rows is rows
    assert unpublished.directory is None
    assert not world.index._open


@plain_python
@pytest.mark.parametrize("where", ["open", "sealed", "in a file", "compacted"])
@pytest.mark.parametrize("row_count", [700, 70_000])
def test_bytes_are_counted_without_a_look_at_all_rows(
    where: str, row_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(1)
    for row in range(row_count):
        world.index.add(0, row, 10 * row, 10, row, 0)
    world.oracle.position = 10 * row_count
    if where != "open":
        world.seal()
    if where in ("in a file", "compacted"):
        world.publish()
    if where == "compacted":
        world.index.adopt_compacted(0, Compacted(row_count, 0))
    looked_at = 0
    copied = stretch.copied

    def counted(column: Numbers, first: int, stop: int) -> "array[int]":
        nonlocal looked_at
        looked_at += stop - first
        return copied(column, first, stop)

    while world.index.sum_up(0):
        pass
    monkeypatch.setattr(stretch, "copied", counted)
    world.read_count = 0
    for offset in (0, 300, row_count // 2 + 77, row_count - 1):
        byte_count = 10 * (row_count - offset)
        assert world.index.bytes_from(0, offset) == byte_count
        assert world.index.offset_with_bytes(0, byte_count - 9, 0) == offset
    assert looked_at <= 4 * 6 * rows_module.ROWS_PER_SUM
    assert world.read_count <= 4 * 6 + 3


def test_what_lies_behind_a_position_is_found_among_many_segments_with_few_reads() -> None:
    world = World(1)
    world.add(1)
    for _ in range(1000):
        world.add(0)
        world.seal()
    world.add(1)
    world.seal()
    world.reopen()
    world.read_count = 0
    assert world.index.offset_behind(1, world.oracle.sealed_bases[1]) == world.batches[1][1][0]
    assert world.read_count <= 15 * 3


@pytest.mark.parametrize("released_count", range(4))
def test_what_lies_behind_a_position_is_found_if_segments_before_it_were_given_up(
    released_count: int,
) -> None:
    world = World(1)
    for partitions in ((0,), (1,), (0, 1), (1,)):
        for partition in partitions:
            world.add(partition)
        world.seal()
    world.publish()
    bases = [*world.oracle.sealed_bases, world.oracle.base]
    world.index.release_before(bases[released_count])
    for base in bases[released_count:]:
        behind = (batch[0] for batch in world.batches[0] if batch[1] >= base)
        assert world.index.offset_behind(0, base) == next(behind, None)


@plain_python
def test_an_index_is_encoded_in_steps_of_a_few_partitions() -> None:
    world = World(1)
    for partition in range(20 * sealed.PARTITIONS_AT_ONCE):
        world.add(partition)
    world.seal()
    (unpublished,) = world.index.unpublished()
    assert sum(1 for _ in unpublished.encode()) >= 40


def test_the_oldest_batch_is_found_among_many_segments_with_few_reads() -> None:
    world = World(1)
    world.add(1)
    for _ in range(1000):
        world.add(0)
        world.seal()
    world.add(1)
    world.reopen()
    world.read_count = 0
    world.check_offset(1, world.batches[1][0][0])
    # Halving a thousand takes ten; finding the way to the next batch takes ten more. Each has a
    # header, checksums and one page.
    assert world.read_count <= 30 * 3


def test_restoring_reads_no_sealed_index() -> None:
    world = World(1)
    for _ in range(50):
        world.add(0)
        world.seal()
    world.publish()
    world.read_count = 0
    world.reopen()
    assert world.index.timestamp_max(0) is not None
    assert world.read_count == 0


def test_no_file_is_needed_to_find_what_is_held_in_memory() -> None:
    world = World(1)
    world.index.not_held_to(-1)
    world.is_cold = True
    for _ in range(20):
        for partition in (0, 1):
            world.add(partition)
            world.abort(partition, world.batches[partition][-1][0])
        world.seal()
        world.publish()
        world.index.not_held_to(world.oracle.base - 1)
    for _ in range(3):
        world.add(0)
        world.abort(0, world.batches[0][-1][0])
        world.seal()
        world.publish()
    for is_open in (False, True):
        if is_open:
            world.add(0)
        for offset, position, size, *_ in world.batches[0][20:23]:
            assert world.index.extents(0, offset, offset + 1, 1) == [(position, size)]
            assert world.index.aborted(0, offset, offset + 1)
    newest = world.batches[0][22]
    world.index.not_held_to(newest[1])
    assert world.index.extents(0, newest[0], newest[0] + 1, 1)
    world.index.not_held_to(world.oracle.base)
    assert not world.index._containers._published
    with pytest.raises(NotLoaded):
        world.index.extents(0, newest[0], newest[0] + 1, 1)


def test_nothing_of_a_published_segment_stays_in_memory_but_bounded_pages() -> None:
    world = World(1)
    for _ in range(containers.INDEXES_MAX + 20):
        world.add(0)
        world.seal()
        world.publish()
        world.check(0)
    for offset in range(0, world.batches[0][-1][0], 50):
        world.check_offset(0, offset)
    assert not world.index.unpublished()
    assert len(world.index._containers._files) <= containers.INDEXES_MAX
    assert not world.index._open


def test_pages_are_held_up_to_a_bound_those_used_last() -> None:
    reads: list[int] = []

    def read_now(name: str, offset: int, size: int) -> bytes:
        reads.append(offset)
        return bytes(size)

    held = Pages(read_now, bytes_max=3 * PAGE_SIZE)
    for number in (0, 1, 2, 0, 3, 0, 2, 1):
        held.get("its name", number * PAGE_SIZE, PAGE_SIZE, lambda stored: None)
    assert [offset // PAGE_SIZE for offset in reads] == [0, 1, 2, 3, 1]


def test_one_search_among_large_columns_reads_a_few_pages() -> None:
    world = World(1)
    for row in range(20_000):
        world.index.add(row % 2, row, row, 1, row)
    world.oracle.position = 20_000
    world.seal()
    world.publish()
    whole = len(world.files[names.index(0)])
    sizes: list[int] = []
    read_now = world.read_now

    def counted(name: str, offset: int, size: int) -> bytes | bytearray | None:
        sizes.append(size)
        return read_now(name, offset, size)

    world.index = BatchIndex(counted)
    world.index.restore([0], read_index(empty_index(), "opened"))
    world.index._before = finished(directory_of(world.index._before))
    assert world.index.find(1, 10_001) == Location(10_001, 10_001, 1)
    assert sum(sizes) < whole / 3


def empty_index() -> bytearray:
    return finished(BatchIndex(nothing).encode_open(0, 0))


def test_extents_give_one_batch_at_least_and_then_what_fits() -> None:
    index = BatchIndex(nothing)
    for row in range(10):
        index.add(5, 10 * row, 1000 * row, 100, row)
    everything = [(1000 * row, 100) for row in range(10)]
    assert index.extents(5, 0, 100, 10_000) == everything
    assert index.extents(5, 25, 100, 10_000) == everything[2:]
    assert index.extents(5, 25, 41, 10_000) == everything[2:5]
    assert index.extents(5, 25, 40, 10_000) == everything[2:4]
    assert index.extents(5, 25, 100, 299) == everything[2:4]
    assert index.extents(5, 25, 100, 0) == everything[2:3]
    assert index.extents(6, 0, 100, 10_000) == []


def test_a_batch_stamped_with_an_older_time_does_not_hide_the_one_before_it() -> None:
    index = BatchIndex(nothing)
    for row, timestamp_ms in enumerate((100, 50, 120)):
        index.add(0, row, row, 1, timestamp_ms)
    assert index.first_at_or_after(0, 60, 0) == Location(0, 0, 1)
    assert index.first_at_or_after(0, 101, 0) == Location(2, 2, 1)
    assert index.first_at_or_after(0, 121, 0) is None


def test_an_offset_in_a_gap_is_answered_with_the_batch_behind_it() -> None:
    index = BatchIndex(nothing)
    for base_offset in (0, 30):
        index.add(0, base_offset, 100 * base_offset, 61, 0, 9)
    for offset, base_offset in ((9, 0), (10, 30), (25, 30), (39, 30)):
        assert index.find(0, offset) == Location(base_offset, 100 * base_offset, 61)
        assert index.extents(0, offset, 40, 61) == [(100 * base_offset, 61)]
    assert index.find(0, 40) is None
    assert index.extents(0, 40, 100, 61) == []
    assert index.last_begun(0, 25) == Location(0, 0, 61)


def test_a_batch_of_a_segment_that_was_given_up_is_not_found() -> None:
    world = World(1)
    world.add(0)
    world.seal()
    world.add(1)
    world.seal()
    world.publish()
    world.index.release_before(world.oracle.base)
    offset = world.batches[0].pop()[0]
    assert world.index.find(0, offset) is None
    assert world.index.last_begun(0, offset) is None
    world.add(0)
    (behind,) = world.batches[0]
    assert world.index.find(0, offset) == Location(*behind[:3])


def three_partitions() -> bytes:
    world = World(3)
    for partition in range(3):
        for _ in range(3):
            world.add(partition)
        world.abort(partition, world.batches[partition][-1][0])
    return bytes(finished(world.index.encode_open(0, world.oracle.position)))


@pytest.mark.parametrize("cut", [0, 10, 47, 60])
def test_an_index_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(CorruptJournal, match="its name"):
        read_index(three_partitions()[:cut], "its name")


Read = list[tuple[int, list[int], list[int], int]]


def read_wholly(content: bytes) -> Read:
    _, found = read_index(content, "its name").restored()
    return [
        (partition, [*rows.base_offsets], [*rows.sizes], rows.earlier_byte_count)
        for partition, rows in found.items()
    ]


def test_any_flipped_bit_in_an_index_is_seen_when_it_is_read() -> None:
    content = three_partitions()
    for offset in range(len(content)):
        flipped = bytearray(content)
        flipped[offset] ^= 1
        with pytest.raises(CorruptJournal, match="its name"):
            read_wholly(bytes(flipped))


def test_damage_to_a_block_hides_nothing_of_the_directory_nor_what_lies_in_other_pages() -> None:
    index = BatchIndex(nothing)
    for row in range(3 * PAGE_SIZE):
        index.add(row % 2, row, row, 1, row)
    content = bytearray(finished(index.encode_open(0, 3 * PAGE_SIZE)))
    content[-1] ^= 1
    damaged = read_index(bytes(content), "its name")
    entries = [damaged.entry(partition) for partition in (0, 1)]
    first, last = map(damaged.stretch, entries)
    assert first is not None
    assert last is not None
    assert first.location(0) == Location(0, 0, 1)
    with pytest.raises(CorruptJournal):
        last.ends_before(last.stop - 1, 0)
    assert damaged.last_offset(entries[1]) == 3 * PAGE_SIZE - 1


ROWS_BEFORE = {1: [(0, 100, 61), (4, 300, 70)], 5: [(7, 200, 99)]}
DELTAS_BEFORE = {1: [3, 2], 5: [0]}
READ_BEFORE: Read = [(1, [0, 4], [61, 70], 0), (5, [7], [99], 0)]


def of_format(format_: int) -> bytes:
    """As older versions wrote these rows."""
    return of_format_with_pages(format_) if format_ >= 3 else of_format_without_pages(format_)


def of_format_with_pages(format_: int) -> bytes:
    directory = [array("q") for _ in range(8)]
    blocks = bytearray()
    for partition, known in ROWS_BEFORE.items():
        byte_count = sum(row[2] for row in known)
        fields = (partition, *known[-1], byte_count, 9, 0, len(blocks) // 8)
        for column, field in zip(directory, fields, strict=True):
            column.append(field)
        count = len(known)
        words = (count, 0, *(row[0] for row in known), *(row[1] for row in known), *[9] * count)
        blocks += array("q", words).tobytes() + array("i", [row[2] for row in known]).tobytes()
        blocks += bytes(4 * (count % 2))
        if format_ == 4:
            blocks += array("i", DELTAS_BEFORE[partition]).tobytes() + bytes(4 * (count % 2))
    summary = b"".join(map(bytes, directory))
    checksums = struct.pack("=II", crc32c(summary), crc32c(bytes(blocks)))
    length = (len(summary) + len(blocks)) // 8
    head = struct.pack("=8sIIQQQ", b"SEMELIX1", format_, len(ROWS_BEFORE), length, 0, 1000)
    head += struct.pack("=I", crc32c(checksums))
    return head + struct.pack("=I", crc32c(head)) + checksums + summary + blocks


def of_format_without_pages(format_: int) -> bytes:
    rows = ROWS_BEFORE
    directory = [array("q") for _ in range(8)]
    checksums = array("q")
    first = 0
    for partition, known in rows.items():
        fields = (partition, first, len(known), *known[-1], sum(row[2] for row in known), 9)
        for column, field in zip(directory, fields, strict=True):
            column.append(field)
        first += len(known)
        columns = (*(array("q", [row[kind] for row in known]) for kind in (0, 1)),)
        times, sizes = array("q", [9] * len(known)), array("i", [row[2] for row in known])
        checksums.append(crc32c(b"".join((*map(bytes, columns), bytes(times), bytes(sizes)))))
    every = [row for known in rows.values() for row in known]
    summary = b"".join(map(bytes, directory)) + (bytes(checksums) if format_ == 2 else b"")
    body = b"".join(
        (
            *(bytes(array("q", [row[kind] for row in every])) for kind in (0, 1)),
            bytes(array("q", [9] * len(every))),
            bytes(array("i", [row[2] for row in every])),
        )
    )
    head = struct.pack("=8sIIQQQ", b"SEMELIX1", format_, len(rows), len(every), 0, 1000)
    head += struct.pack("=I", crc32c(summary + body if format_ == 1 else summary))
    return head + struct.pack("=I", crc32c(head)) + summary + body


@pytest.mark.parametrize("format_", [1, 2, 3, 4])
def test_an_index_of_an_older_format_is_read(format_: int) -> None:
    content = of_format(format_)
    assert read_wholly(content) == READ_BEFORE
    for offset in range(len(content)):
        flipped = bytearray(content)
        flipped[offset] ^= 1
        with pytest.raises(CorruptJournal, match="its name"):
            read_wholly(bytes(flipped))


@pytest.mark.parametrize("format_", [1, 2, 3, 4])
@pytest.mark.parametrize("is_cold", [False, True])
def test_segments_of_an_older_format_lie_before_those_of_today(format_: int, is_cold: bool) -> None:
    world = World(1)
    world.is_cold = is_cold
    world.files[names.index(0)] = of_format(format_)
    world.index.restore([0], read_index(world.files[names.index(0)], "opened"))
    world.index._open = {}
    world.oracle.base = world.oracle.position = 1000
    world.oracle.sealed_bases = [0]
    world.batches[1] = [(0, 100, 61, 9, 3), (4, 300, 70, 9, 2)]
    world.batches[5] = [(7, 200, 99, 9, 0)]
    world.oracle.ends = {1: 7, 5: 8}
    begun: set[int] = set()
    for _ in range(30):
        for partition in (1, 5, 6):
            # No older version has left a gap behind a batch.
            is_first = partition not in begun
            begun.add(partition)
            world.add(partition, gaps=(0,)) if is_first else world.add(partition)
            world.check(partition)
        if world.rng.random() < 0.3:
            world.seal()
            world.reopen()
