"""The primitive fields of the keys and values that coordinators store in internal topics."""

import struct

from semel.errors import CorruptJournal, SemelError
from semel.types import Buffer


class FieldReader:
    """Reads fields in order from one key or value; never past its end."""

    def __init__(self, buffer: Buffer, kind: str, error: type[SemelError] = CorruptJournal) -> None:
        self._bytes = bytes(buffer)
        self._position = 0
        self._kind = kind
        self._error = error
        self.flexible = False
        """From here on lengths are unsigned varints plus one, as in Kafka's flexible versions."""

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._bytes):
            raise self._error(
                f"{self._kind}: {size} bytes wanted at byte {self._position} of {len(self._bytes)}"
            )
        taken = self._bytes[self._position : end]
        self._position = end
        return taken

    def integers(self, layout: struct.Struct) -> tuple[int, ...]:
        """Several integers at once, as `layout` says."""
        return layout.unpack(self._take(layout.size))

    def int16(self) -> int:
        return int.from_bytes(self._take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self._take(8), "big", signed=True)

    def unsigned_varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise self._error(f"{self._kind}: varint of more than 5 bytes at {self._position}")

    def nullable_string(self) -> str | None:
        size = self.unsigned_varint() - 1 if self.flexible else self.int16()
        if size < 0:
            return None
        try:
            return self._take(size).decode()
        except UnicodeDecodeError as error:
            raise self._error(
                f"{self._kind}: no UTF-8 before byte {self._position}: {error}"
            ) from error

    def string(self) -> str:
        return self.nullable_string() or ""

    def data(self) -> bytes:
        size = self.unsigned_varint() - 1 if self.flexible else self.int32()
        return self._take(max(size, 0))

    def count(self) -> int:
        """The length of an array; each of its items takes at least one byte."""
        count = self.unsigned_varint() - 1 if self.flexible else self.int32()
        if count > len(self._bytes) - self._position:
            raise self._error(f"{self._kind}: {count} items at byte {self._position}")
        return max(count, 0)

    def skip_tags(self) -> None:
        self.tags()

    def tags(self) -> dict[int, bytes]:
        """The tagged fields that stand here, by their numbers; none in versions without them."""
        if not self.flexible:
            return {}
        tagged = {}
        for _ in range(self.unsigned_varint()):
            tag = self.unsigned_varint()
            tagged[tag] = self._take(self.unsigned_varint())
        return tagged


def string_field(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def nullable_string_field(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else string_field(text)


def data_field(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content
