"""Which bytes of its sources a plan needs, told by their indexes alone.

Sources that lie far away are fetched before a volume is made of them; of what a plan does not need
nothing is fetched.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from semel.errors import CorruptJournal
from semel.journal import names
from semel.journal.file.device import Device
from semel.journal.index_files import AnySealedIndex, open_index
from semel.journal.pages import Pages
from semel.journal.sealed import NO_ENTRY
from semel.journal.stretch import copied
from semel.volumes.plans import CompactionPlan, Portion, SettlingPlan
from semel.volumes.writing import INDEX_BYTES_HELD, first_live

GAP_MAX: Final = 256 * 1024
"""Bytes that cost less to fetch than another request would."""
RANGE_SIZE_MAX: Final = 4 * 2**20


class RangesPlan(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Tell what is needed for this one."""

    plan: SettlingPlan | CompactionPlan


class Range(msgspec.Struct, frozen=True, array_like=True):
    base: int
    """Where the source begins."""
    position: int
    size: int


def needed(device: Device, plan: SettlingPlan | CompactionPlan) -> list[Range]:
    """By source, rising. An index that is damaged needs nothing: whoever makes the volume tells of
    it. Raises OSError."""
    pages = Pages(device.read, INDEX_BYTES_HELD)
    found: list[Range] = []
    for base, portions in _portions(plan):
        try:
            index = open_index(pages, names.index_at(base))
            found += _gathered(base, _extents(index, portions))
        except CorruptJournal:
            continue
    return found


def _portions(
    plan: SettlingPlan | CompactionPlan,
) -> Iterator[tuple[int, Iterable[Portion]]]:
    if isinstance(plan, SettlingPlan):
        for base in plan.sources:
            yield base, plan.portions()
        return
    for base in plan.sources:
        yield base, [Portion(each.number, each.first_dirty_offset) for each in plan.compactions]
    lefts: dict[int, list[Portion]] = {}
    for each in plan.compactions:
        if each.compacted_base is not None:
            lefts.setdefault(each.compacted_base, []).append(Portion(each.number, each.start))
    yield from sorted(lefts.items())


def _extents(index: AnySealedIndex, portions: Iterable[Portion]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for portion in portions:
        entry = index.entry(portion.number)
        stretch = None if entry == NO_ENTRY else index.stretch(entry)
        if stretch is not None:
            first = first_live(stretch, portion.start)
            positions = copied(stretch.positions, first, stretch.stop)
            found += zip(positions, copied(stretch.sizes, first, stretch.stop), strict=True)
    return sorted(found)


def _gathered(base: int, extents: list[tuple[int, int]]) -> Iterator[Range]:
    start = end = -1
    for position, size in extents:
        if start >= 0 and position - end <= GAP_MAX and position + size - start <= RANGE_SIZE_MAX:
            end = max(end, position + size)
            continue
        if start >= 0:
            yield Range(base, start, end - start)
        start, end = position, position + size
    if start >= 0:
        yield Range(base, start, end - start)
