"""The records of many batches in one buffer, unpacked to where they stay."""

import numpy as np

from semel.errors import RecordListTooLarge
from semel.records.compression import OUTPUT_SIZE_MAX, UnpacksTooLarge, decompress_into

_ARROW_SIZE_MAX = 2**31 - 1
_GROWTH_FIRST = 4
_GROWTH = 2
_ROOM_SIZE_MIN = 64 * 1024


class Unpacked:
    def __init__(self, packed_size: int) -> None:
        room_size = max(packed_size * _GROWTH_FIRST, _ROOM_SIZE_MIN)
        # What is not written to is not touched either, and so takes no memory.
        self._room = np.empty(min(room_size, _ARROW_SIZE_MAX), np.uint8)
        self._size = 0
        self.spans: list[tuple[int, int]] = []
        """Where the records of each batch stand."""

    @property
    def content(self) -> memoryview:
        return self._room.data[: self._size]

    def add(self, compression: int, packed: memoryview) -> None:
        while True:
            room = self._room.data[self._size : self._size + OUTPUT_SIZE_MAX]
            size = decompress_into(compression, packed, room)
            if size is not None:
                break
            if len(room) == OUTPUT_SIZE_MAX:
                raise UnpacksTooLarge(f"{len(packed)} bytes unpack to more than {OUTPUT_SIZE_MAX}")
            self._grow()
        self.spans.append((self._size, self._size + size))
        self._size += size

    def _grow(self) -> None:
        if self._room.size == _ARROW_SIZE_MAX:
            raise RecordListTooLarge(
                f"a fetch unpacks to more than {_ARROW_SIZE_MAX} bytes: fetch less at a time"
            )
        larger = np.empty(min(self._room.size * _GROWTH, _ARROW_SIZE_MAX), np.uint8)
        larger[: self._size] = self._room[: self._size]
        self._room = larger
