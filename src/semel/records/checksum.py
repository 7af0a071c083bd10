"""CRC32C, the checksum of record batches and journal frames."""

from typing import Protocol

from fastcrc.crc32 import iscsi

from semel.types import Buffer


class Checksum(Protocol):
    def __call__(self, data: Buffer, initial: int | None = None, /) -> int:
        """Of `data`, or of it behind the bytes whose checksum is `initial`."""


crc32c: Checksum = iscsi
