"""CRC32C, the checksum of record batches and journal frames."""

from collections.abc import Callable

from fastcrc.crc32 import iscsi

from semel.types import Buffer

crc32c: Callable[[Buffer], int] = iscsi
