"""The batch index against a plain list of all batches, over many sealed segments."""

import struct
from random import Random

import pytest

from semel.errors import CorruptJournal
from semel.journal import index as index_module
from semel.journal import names, sealed
from semel.journal.index import BatchIndex
from semel.journal.sealed import Location, SealedIndex
from semel.records.checksum import crc32c

Batch = tuple[int, int, int, int]
"""Base offset, position, size, timestamp."""


class World:
    """An index with its files in a dict, and the oracle beside it."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.files: dict[str, bytes] = {}
        self.load_count = 0
        self.index = BatchIndex(self.load)
        self.batches: dict[int, list[Batch]] = {}
        self.base = 0
        self.position = 0
        self.sealed_bases: list[int] = []

    def load(self, name: str) -> memoryview:
        self.load_count += 1
        return memoryview(self.files[name])

    def add(self, partition: int) -> None:
        known = self.batches.setdefault(partition, [])
        base_offset = known[-1][0] + self.rng.randint(1, 5) if known else self.rng.choice((0, 7))
        size = self.rng.randint(61, 300)
        self.position += self.rng.choice((0, 36, 5000))
        batch = (base_offset, self.position, size, self.rng.randint(0, 1000) + self.position)
        known.append(batch)
        self.index.add(partition, *batch)
        self.position += size

    def seal(self) -> None:
        self.position += 10
        self.index.seal(self.base, self.position)
        self.sealed_bases.append(self.base)
        self.base = self.position

    def publish(self) -> None:
        for base, content in self.index.unpublished():
            self.files[names.index(base)] = content
            self.index.published(base)

    def reopen(self) -> None:
        """As a start from a checkpoint taken now."""
        self.publish()
        opened = self.index.encode_open(self.base, self.position)
        self.index = BatchIndex(self.load)
        self.index.restore(self.sealed_bases, SealedIndex(memoryview(opened), "opened"))

    def drop(self, partition: int) -> None:
        self.index.drop(partition)
        self.batches.pop(partition, None)

    def check(self, partition: int) -> None:
        index, known = self.index, self.batches.get(partition, [])
        assert index.bytes_of(partition) == sum(batch[2] for batch in known)
        newest = max((batch[3] for batch in known), default=None)
        assert index.timestamp_max(partition) == newest
        self.check_offset(partition, self.rng.randint(0, known[-1][0] + 5) if known else 3)
        self.check_time(partition, self.rng.randint(0, newest + 5) if newest else 3)

    def check_offset(self, partition: int, offset: int) -> None:
        known = self.batches.get(partition, [])
        before = [batch for batch in known if batch[0] <= offset]
        found = before[-1] if before else known[0] if known else None
        assert self.index.find(partition, offset) == (Location(*found[:3]) if found else None)
        rest = known[known.index(found) :] if found else []
        spans = self.index.spans(partition, offset)
        listed = [
            (span.base_offsets[row], span.positions[row], span.sizes[row])
            for span in spans
            for row in range(span.first, span.stop)
        ]
        assert listed == [batch[:3] for batch in rest]

    def check_time(self, partition: int, timestamp_ms: int) -> None:
        known = self.batches.get(partition, [])
        found = next((batch for batch in known if batch[3] >= timestamp_ms), None)
        expected = Location(*found[:3]) if found else None
        assert self.index.first_at_or_after(partition, timestamp_ms) == expected


@pytest.mark.parametrize("seed", range(40))
def test_any_lookup_agrees_with_a_list_of_all_batches(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "MAPS_MAX", 3)
    world = World(seed)
    partition_count = world.rng.choice((1, 3, 12))
    dropped: set[int] = set()
    for _ in range(400):
        # Some partitions are seldom written, so that most segments have nothing of them.
        partition = min(world.rng.randrange(partition_count), world.rng.randrange(partition_count))
        chance = world.rng.random()
        if chance < 0.05:
            world.seal()
        elif chance < 0.08:
            world.publish()
        elif chance < 0.09:
            world.reopen()
        elif chance < 0.095:
            world.drop(partition)
            dropped.add(partition)
        elif chance < 0.6 and partition not in dropped:
            world.add(partition)
        elif partition not in dropped:
            world.check(partition)
    for partition in range(partition_count):
        if partition not in dropped:
            world.check(partition)


def test_the_oldest_batch_is_found_among_many_segments_with_few_loads() -> None:
    world = World(1)
    world.add(1)
    for _ in range(1000):
        world.add(0)
        world.seal()
    world.add(1)
    world.reopen()
    world.load_count = 0
    world.check_offset(1, world.batches[1][0][0])
    # Halving a thousand takes ten; finding the way to the next batch takes ten more.
    assert world.load_count <= 30


def test_restoring_loads_no_sealed_index() -> None:
    world = World(1)
    for _ in range(50):
        world.add(0)
        world.seal()
    world.load_count = 0
    world.reopen()
    assert world.index.bytes_of(0) > 0
    assert world.load_count == 0


def test_nothing_of_a_published_segment_stays_in_memory_beyond_the_bounded_maps() -> None:
    world = World(1)
    for _ in range(2 * index_module.MAPS_MAX):
        world.add(0)
        world.seal()
        world.publish()
        world.check(0)
    for offset in range(0, world.batches[0][-1][0], 10):
        world.check_offset(0, offset)
    assert not world.index.unpublished()
    assert len(world.index._maps) <= index_module.MAPS_MAX
    rows = world.index._partitions[0]
    assert len(rows.base_offsets) == 0


def test_locations_give_one_batch_at_least_and_then_what_fits() -> None:
    index = BatchIndex(lambda name: memoryview(b""))
    for row in range(10):
        index.add(5, 10 * row, 1000 * row, 100, row)
    everything = [(1000 * row, 100) for row in range(10)]
    assert index.locations(5, 0, 100, 10_000) == everything
    assert index.locations(5, 25, 100, 10_000) == everything[2:]
    assert index.locations(5, 25, 41, 10_000) == everything[2:5]
    assert index.locations(5, 25, 40, 10_000) == everything[2:4]
    assert index.locations(5, 25, 100, 299) == everything[2:4]
    assert index.locations(5, 25, 100, 0) == everything[2:3]
    assert index.locations(6, 0, 100, 10_000) == []


def test_a_batch_stamped_with_an_older_time_does_not_hide_the_one_before_it() -> None:
    index = BatchIndex(lambda name: memoryview(b""))
    for row, timestamp_ms in enumerate((100, 50, 120)):
        index.add(0, row, row, 1, timestamp_ms)
    assert index.first_at_or_after(0, 60) == Location(0, 0, 1)
    assert index.first_at_or_after(0, 101) == Location(2, 2, 1)
    assert index.first_at_or_after(0, 121) is None


@pytest.mark.parametrize("cut", [0, 10, 47, 60])
def test_an_index_cut_short_is_refused(cut: int) -> None:
    world = World(1)
    world.add(0)
    content = sealed.encode(world.index._partitions, 0, 1000)
    with pytest.raises(CorruptJournal, match="its name"):
        SealedIndex(memoryview(content[:cut]), "its name")


def three_partitions() -> bytes:
    world = World(1)
    for partition in range(3):
        world.add(partition)
    return sealed.encode(world.index._partitions, 0, 1000)


def read_wholly(content: bytes) -> list[tuple[int, list[int], list[int]]]:
    index = SealedIndex(memoryview(content), "its name")
    found = [(partition, index.rows(partition)) for partition in index.partitions()]
    return [(partition, [*rows.base_offsets], [*rows.sizes]) for partition, rows in found]


def test_any_flipped_bit_in_an_index_is_seen_when_it_is_read() -> None:
    content = three_partitions()
    for offset in range(len(content)):
        flipped = bytearray(content)
        flipped[offset] ^= 1
        with pytest.raises(CorruptJournal, match="its name"):
            read_wholly(bytes(flipped))


def test_damage_in_the_rows_of_one_partition_does_not_hide_the_others() -> None:
    content = bytearray(three_partitions())
    content[-1] ^= 1
    index = SealedIndex(memoryview(content), "its name")
    assert index.rows(0).base_offsets
    with pytest.raises(CorruptJournal):
        index.rows(2)


def test_an_index_of_the_first_format_is_read() -> None:
    """One checksum over all of it, and none for each partition."""
    content = three_partitions()
    header = struct.Struct("=8sIIQQQ")
    magic, _, partition_count, *others = header.unpack_from(content)
    body = content[sealed.HEADER_SIZE :]
    body = body[: 8 * 8 * partition_count] + body[9 * 8 * partition_count :]
    head = header.pack(magic, 1, partition_count, *others) + struct.pack("=I", crc32c(body))
    older = head + struct.pack("=I", crc32c(head)) + body
    assert read_wholly(older) == read_wholly(content)
    with pytest.raises(CorruptJournal):
        read_wholly(older[:-1] + bytes([older[-1] ^ 1]))
