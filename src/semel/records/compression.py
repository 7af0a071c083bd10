"""The compression types of record batches: bytes in, bytes out, never more than asked for."""

import enum
import struct
from collections.abc import Callable

import cramjam
import lz4.frame

from semel.errors import CorruptMessage, UnsupportedCompressionType
from semel.types import Buffer

OUTPUT_SIZE_MAX = 128 * 1024 * 1024
"""What one batch may grow to, unless the caller says otherwise: a bomb ends here."""

# Java writes snappy as a stream of blocks behind this header: magic, version, compatible version.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_SIZE = 32 * 1024
_BLOCK_SIZE = struct.Struct(">i")

# Twice as fast as the default level on what hardly repeats, for 7 % more bytes, and as fast on what
# does, for 2 % more: docs/decisions/0007-lz4-that-looks-less-hard.md.
_LZ4_LEVEL = -3

_GROWTH_FIRST = 8
_GROWTH = 2
_OUTPUT_SIZE_FIRST = 64 * 1024
_NO_ROOM = "failed to write whole buffer"  # How Rust's I/O, and so cramjam, says it.


class UnpacksTooLarge(CorruptMessage):
    """Whole, it may be, but more than the caller wants to hold."""


class Compression(enum.IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(compression: int, plain: Buffer) -> Buffer:
    if compression == Compression.NONE:
        return plain
    if compression not in _COMPRESSORS:
        raise _unknown(compression)
    return _COMPRESSORS[compression](plain)


def decompress(compression: int, packed: Buffer, output_size_max: int = OUTPUT_SIZE_MAX) -> Buffer:
    """The plain bytes.

    Raises UnpacksTooLarge if they are more than `output_size_max`, CorruptMessage if damaged.
    """
    if compression == Compression.NONE:
        return packed
    # The size of the output is not known before, and what the input claims is not to be believed:
    # try a likely size, and then larger ones up to the limit.
    room = min(max(len(packed) * _GROWTH_FIRST, _OUTPUT_SIZE_FIRST), output_size_max)
    while True:
        out = bytearray(room)
        size = decompress_into(compression, packed, memoryview(out))
        if size is not None:
            return bytes(memoryview(out)[:size])
        if room == output_size_max:
            raise UnpacksTooLarge(f"{len(packed)} bytes unpack to more than {output_size_max}")
        room = min(room * _GROWTH, output_size_max)


def decompress_into(compression: int, packed: Buffer, room: memoryview) -> int | None:
    """How many plain bytes are at the beginning of `room` now; None if they do not fit.

    Raises CorruptMessage if they are damaged.
    """
    if compression not in _DECOMPRESSORS:
        raise _unknown(compression)
    try:
        return _DECOMPRESSORS[compression](packed, room)
    except cramjam.DecompressionError as error:
        if _NO_ROOM in str(error):
            return None
        name = Compression(compression).name.lower()
        raise CorruptMessage(
            f"{len(packed)} bytes of {name} do not unpack into {len(room)} bytes: {error}"
        ) from None


def _lz4(plain: Buffer) -> bytes:
    """As Kafka's clients write it; a batch has a checksum of its own."""
    packed: bytes = lz4.frame.compress(
        plain,
        compression_level=_LZ4_LEVEL,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        # Java does not read blocks that refer to each other.
        block_linked=False,
        store_size=False,
    )
    return packed


def _snappy(plain: Buffer) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    view = memoryview(plain)
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE])
        out += _BLOCK_SIZE.pack(len(block))
        out += memoryview(block)
    return bytes(out)


def _unsnappy(packed: Buffer, room: memoryview) -> int | None:
    view = memoryview(packed).cast("B")
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _unsnappy_block(view, room)
    # The two versions behind the magic are not compared: some writers swap their bytes.
    position = len(_XERIAL_HEADER)
    filled = 0
    while position < len(view):
        if len(view) - position < _BLOCK_SIZE.size:
            raise CorruptMessage(f"snappy block at byte {position}: size is cut")
        (size,) = _BLOCK_SIZE.unpack_from(view, position)
        position += _BLOCK_SIZE.size
        if not 0 <= size <= len(view) - position:
            raise CorruptMessage(f"snappy block at byte {position}: {size} bytes do not fit")
        unpacked = _unsnappy_block(view[position : position + size], room[filled:])
        if unpacked is None:
            return None
        filled += unpacked
        position += size
    return filled


def _unsnappy_block(block: memoryview, room: memoryview) -> int | None:
    if cramjam.snappy.decompress_raw_len(block) > len(room):
        return None
    return _copy_into(memoryview(cramjam.snappy.decompress_raw(block)), room)


def _copy_into(plain: memoryview, room: memoryview) -> int | None:
    if len(plain) > len(room):
        return None
    room[: len(plain)] = plain
    return len(plain)


def _unknown(compression: int) -> UnsupportedCompressionType:
    return UnsupportedCompressionType(f"compression type {compression} is unknown")


_COMPRESSORS: dict[int, Callable[[Buffer], bytes]] = {
    Compression.GZIP: lambda plain: bytes(cramjam.gzip.compress(plain)),
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _lz4,
    Compression.ZSTD: lambda plain: bytes(cramjam.zstd.compress(plain)),
}

_DECOMPRESSORS: dict[int, Callable[[Buffer, memoryview], int | None]] = {
    Compression.NONE: lambda plain, room: _copy_into(memoryview(plain).cast("B"), room),
    Compression.GZIP: cramjam.gzip.decompress_into,
    Compression.SNAPPY: _unsnappy,
    Compression.LZ4: cramjam.lz4.decompress_into,
    Compression.ZSTD: cramjam.zstd.decompress_into,
}
