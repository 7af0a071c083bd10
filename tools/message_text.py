"""Lines of generated code, with their indentation, names and shared constants."""

from collections.abc import Iterator
from contextlib import contextmanager

RESERVED = frozenset(
    {
        "buffer", "position", "limit", "message", "pieces", "output", "size",
        "end", "view", "room", "tag", "text", "tag_count", "struct", "uvarint",
    }
)  # fmt: skip


class Code:
    """The body of one generated module."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.packings: set[str] = set()
        self._indent = 0
        self._names: set[str] = set()

    def line(self, text: str) -> None:
        self.lines.append("    " * self._indent + text if text else "")

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.line(opening)
        self._indent += 1
        yield
        self._indent -= 1

    @contextmanager
    def function(self, opening: str) -> Iterator[None]:
        self.line("")
        self.line("")
        self._names = set(RESERVED)
        with self.block(opening):
            yield

    def name(self, *words: str) -> str:
        """A local variable that nothing else in this function uses."""
        wished = "_".join(word for word in words if word)
        name = wished
        serial = 2
        while name in self._names:
            name = f"{wished}_{serial}"
            serial += 1
        self._names.add(name)
        return name

    def packing(self, letters: str) -> str:
        """The suffix of the module's pack and unpack functions for these letters."""
        self.packings.add(letters)
        return letters.replace("?", "t")

    def pack(self, letters: str) -> str:
        return f"_pack_{self.packing(letters)}"

    def unpack(self, letters: str) -> str:
        return f"_unpack_{self.packing(letters)}"
