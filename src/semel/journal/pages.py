"""Bytes of index files, held by the page: as many as fit into a bound, those used last.

A lookup runs on the loop and takes what the kernel has in memory. Where the disk would have to be
waited for it raises NotLoaded, which says what to read beside the loop before it is tried again.
"""

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from semel.errors import CorruptJournal
from semel.journal import names
from semel.types import Buffer

PAGE_SIZE: Final = 16 * 1024
"""Bytes. Each page has a checksum of its own, so that what is checked at once is bounded."""

WORDS_PER_PAGE: Final = PAGE_SIZE // 8
BYTES_HELD_MAX: Final = 32 * 2**20

RESTORE: Final = "restore the file, or the folder, from a backup"
"""Nothing but its index tells whose batches a volume has."""

ReadNow = Callable[[str, int, int], Buffer | None]
"""Bytes of a file, if they need not be waited for. Raises OSError."""

Check = Callable[[Buffer], None]
"""Raises CorruptJournal if the bytes are not what was written."""


_Key = tuple[str, int, int]
"""A file, and the offset and size of a piece of it."""


class NotLoaded(Exception):
    """A lookup needs bytes that are not in memory. It can be tried again when they were given to
    `keep`, or what went wrong to `fail`."""

    def __init__(
        self,
        name: str,
        offset: int,
        size: int,
        keep: Callable[[Buffer], None],
        fail: Callable[[Exception], None],
    ) -> None:
        super().__init__(name, offset, size)
        self.name = name
        self.offset = offset
        self.size = size
        self.keep = keep
        self.fail = fail


class Page(NamedTuple):
    """The same bytes as numbers of eight and of four bytes, as far as they are whole."""

    words: memoryview
    halves: memoryview
    plain: memoryview


class Pages:
    def __init__(self, read_now: ReadNow, bytes_max: int = BYTES_HELD_MAX) -> None:
        self._read_now = read_now
        self._bytes_max = bytes_max
        self._bytes_held = 0
        self._held: OrderedDict[_Key, Page] = OrderedDict()
        self._failures: dict[_Key, Exception] = {}

    def get(self, name: str, offset: int, size: int, check: Check) -> Page:
        """Raises NotLoaded, CorruptJournal, OSError."""
        key = (name, offset, size)
        page = self._held.get(key)
        if page is not None:
            self._held.move_to_end(key)
            return page
        stored = self._read_now(name, offset, size)
        if stored is None:
            if key in self._failures:
                raise self._failures.pop(key)
            raise NotLoaded(
                name,
                offset,
                size,
                lambda found: self._keep(key, found, check),
                lambda failure: self._fail(key, failure),
            )
        self._keep(key, stored, check)
        return self._held[key]

    def _fail(self, key: _Key, failure: Exception) -> None:
        """Who asks for it next is told: the lookup that missed it is tried again."""
        self._failures[key] = failure

    def _keep(self, key: _Key, stored: Buffer, check: Check) -> None:
        name, offset, size = key
        if len(stored) != size:
            raise damaged(name, f"cut at byte {offset + len(stored)}")
        check(stored)
        if key not in self._held:
            self._bytes_held += size
        self._held[key] = _page_of(stored)
        self._held.move_to_end(key)
        while self._bytes_held > self._bytes_max and len(self._held) > 1:
            _, page = self._held.popitem(last=False)
            self._bytes_held -= len(page.plain)


def damaged(name: str, reason: str) -> CorruptJournal:
    is_of_volume = name.endswith(names.VOLUME_INDEX)
    advice = RESTORE if is_of_volume else "without the file, a start builds it again"
    return CorruptJournal(f"{name}: {reason}; {advice}")


def _page_of(stored: Buffer) -> Page:
    plain = memoryview(stored)
    whole = plain[: len(plain) & ~7]
    return Page(whole.cast("q"), whole.cast("i"), plain)


class Column:
    """Numbers that stand behind each other over pages."""

    __slots__ = ("_count", "_page", "_start")

    def __init__(self, page: Callable[[int], Page], start: int, count: int) -> None:
        """From the word `start` on."""
        self._page = page
        self._start = start
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: int) -> int:
        number, word = divmod(self._start + row, WORDS_PER_PAGE)
        found: int = self._page(number).words[word]
        return found

    def bisect_left(self, value: int, first: int, stop: int) -> int:
        """As of a list. First the page is found, then the row in it."""
        low, high = self._start + first, self._start + stop
        while low < high and low // WORDS_PER_PAGE != (high - 1) // WORDS_PER_PAGE:
            number = (low // WORDS_PER_PAGE + (high - 1) // WORDS_PER_PAGE + 1) // 2
            if self._page(number).words[0] < value:
                low = number * WORDS_PER_PAGE
            else:
                high = number * WORDS_PER_PAGE
        if low == high:
            return low - self._start
        page_start = low // WORDS_PER_PAGE * WORDS_PER_PAGE
        words = self._page(low // WORDS_PER_PAGE).words
        row = bisect_left(words, value, low - page_start, high - page_start)
        return page_start + row - self._start

    def cut(self, first: int, stop: int) -> "array[int]":
        """A copy of these rows."""
        return _cut(array("q"), self._page, self._start + first, self._start + stop)


class HalfColumn(Column):
    """Of numbers of four bytes."""

    def __getitem__(self, row: int) -> int:
        number, half = divmod(2 * self._start + row, 2 * WORDS_PER_PAGE)
        found: int = self._page(number).halves[half]
        return found

    def cut(self, first: int, stop: int) -> "array[int]":
        start = 2 * self._start
        return _cut(array("i"), self._page, start + first, start + stop)


def _cut(into: "array[int]", page: Callable[[int], Page], start: int, stop: int) -> "array[int]":
    size = into.itemsize
    per_page = PAGE_SIZE // size
    while start < stop:
        number, first = divmod(start, per_page)
        end = min(per_page, first + stop - start)
        into.frombytes(page(number).plain[size * first : size * end])
        start += end - first
    return into
