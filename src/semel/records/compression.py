"""The compression types of record batches: bytes in, bytes out, never more than asked for."""

import enum
import struct
from collections.abc import Callable

import cramjam

from semel.errors import CorruptMessage, UnsupportedCompressionType
from semel.types import Buffer

OUTPUT_SIZE_MAX = 128 * 1024 * 1024
"""What one batch may grow to, unless the caller says otherwise: a bomb ends here."""

# Java writes snappy as a stream of blocks behind this header: magic, version, compatible version.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_SIZE = 32 * 1024
_BLOCK_SIZE = struct.Struct(">i")

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
    if compression not in _DECOMPRESSORS:
        raise _unknown(compression)
    try:
        return _DECOMPRESSORS[compression](packed, output_size_max)
    except cramjam.DecompressionError as error:
        name = Compression(compression).name.lower()
        raise CorruptMessage(
            f"{len(packed)} bytes of {name} do not unpack into {output_size_max} bytes: {error}"
        ) from None


def _lz4(plain: Buffer) -> bytes:
    # Java does not read blocks that refer to the one before. Above the first level, which is that
    # of Kafka's clients, each byte takes ten times as long.
    compressor = cramjam.lz4.Compressor(level=1, block_linked=False)
    compressor.compress(bytes(plain))
    return bytes(compressor.finish())


def _snappy(plain: Buffer) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    view = memoryview(plain)
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE])
        out += _BLOCK_SIZE.pack(len(block))
        out += memoryview(block)
    return bytes(out)


def _unsnappy(packed: Buffer, output_size_max: int) -> bytes:
    view = memoryview(packed)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _unsnappy_block(view, output_size_max)
    # The two versions behind the magic are not compared: some writers swap their bytes.
    position = len(_XERIAL_HEADER)
    out = bytearray()
    while position < len(view):
        if len(view) - position < _BLOCK_SIZE.size:
            raise CorruptMessage(f"snappy block at byte {position}: size is cut")
        (size,) = _BLOCK_SIZE.unpack_from(view, position)
        position += _BLOCK_SIZE.size
        if not 0 <= size <= len(view) - position:
            raise CorruptMessage(f"snappy block at byte {position}: {size} bytes do not fit")
        out += _unsnappy_block(view[position : position + size], output_size_max - len(out))
        position += size
    return bytes(out)


def _unsnappy_block(block: memoryview, output_size_max: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(block)
    if size > output_size_max:
        raise UnpacksTooLarge(f"snappy block would unpack to {size} bytes, over {output_size_max}")
    return bytes(cramjam.snappy.decompress_raw(block))


def _within(decompress_into: Callable[[Buffer, bytearray], int]) -> Callable[[Buffer, int], bytes]:
    """A decompressor that cannot write beyond its limit, from one that fills a given buffer.

    The size of the output is not known before, and what the input claims is not to be believed:
    try a likely size, and then larger ones up to the limit.
    """

    def bounded(packed: Buffer, output_size_max: int) -> bytes:
        room = min(max(len(packed) * _GROWTH_FIRST, _OUTPUT_SIZE_FIRST), output_size_max)
        while True:
            out = bytearray(room)
            try:
                size = decompress_into(packed, out)
            except cramjam.DecompressionError as error:
                if _NO_ROOM not in str(error):
                    raise
                if room == output_size_max:
                    raise UnpacksTooLarge(
                        f"{len(packed)} bytes unpack to more than {output_size_max}"
                    ) from None
                room = min(room * _GROWTH, output_size_max)
            else:
                return bytes(memoryview(out)[:size])

    return bounded


def _unknown(compression: int) -> UnsupportedCompressionType:
    return UnsupportedCompressionType(f"compression type {compression} is unknown")


_COMPRESSORS: dict[int, Callable[[Buffer], bytes]] = {
    Compression.GZIP: lambda plain: bytes(cramjam.gzip.compress(plain)),
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _lz4,
    Compression.ZSTD: lambda plain: bytes(cramjam.zstd.compress(plain)),
}

_DECOMPRESSORS: dict[int, Callable[[Buffer, int], bytes]] = {
    Compression.GZIP: _within(cramjam.gzip.decompress_into),
    Compression.SNAPPY: _unsnappy,
    Compression.LZ4: _within(cramjam.lz4.decompress_into),
    Compression.ZSTD: _within(cramjam.zstd.decompress_into),
}
