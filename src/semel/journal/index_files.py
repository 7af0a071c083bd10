"""Opens the index of a sealed segment, in whatever format it is."""

from semel.errors import CorruptJournal
from semel.journal.pages import Pages
from semel.journal.sealed import FORMAT, HEADER_SIZE, SealedIndex, read_header
from semel.journal.sealed_before import SealedIndexBefore
from semel.types import Buffer

AnySealedIndex = SealedIndex | SealedIndexBefore


def open_index(pages: Pages, name: str) -> AnySealedIndex:
    """Raises NotLoaded, CorruptJournal, OSError."""

    def check(stored: Buffer) -> None:
        if read_header(stored) is None:
            raise CorruptJournal(f"{name}: this is no batch index; the next start builds it again")

    header = read_header(pages.get(name, 0, HEADER_SIZE, check).plain)
    assert header is not None
    if header.format == FORMAT:
        return SealedIndex(pages, name, header)
    stored = pages.get(name, 0, header.size, lambda stored: None).plain
    return SealedIndexBefore(stored, name, header)


def read_index(stored: Buffer, name: str) -> AnySealedIndex:
    """Of bytes that are at hand."""

    def read_now(name: str, offset: int, size: int) -> Buffer:
        return stored[offset : offset + size]

    header = read_header(stored[:HEADER_SIZE])
    if header is None or header.size != len(stored):
        raise CorruptJournal(f"{name}: this is no batch index; the next start builds it again")
    return open_index(Pages(read_now, bytes_max=2 * len(stored)), name)
