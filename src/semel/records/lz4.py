"""LZ4 frames as Kafka's clients write them, around blocks that a library packs and unpacks.

The library has frames too, but adds checksums to them which the batch has no need of. It still
reads the frames that are unlike these.
"""

import struct

import cramjam

from semel.errors import CorruptMessage
from semel.types import Buffer

# Version 1, blocks that do not refer to each other (Java reads no others), no checksums; blocks
# of 64 KiB; and a checksum of these two bytes.
_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_BLOCK_SIZE_MAX = 64 * 1024
_SIZE = struct.Struct("<I")
_END = _SIZE.pack(0)
_GROWTH_MAX = _BLOCK_SIZE_MAX // 255 + 16
"""By how much a block may grow, which is then stored plain."""
_IS_PLAIN = 0x8000_0000
"""Set in the size of a block that does not get smaller."""


def pack(plain: Buffer) -> bytes:
    view = memoryview(plain).cast("B")
    block_count = -(-len(view) // _BLOCK_SIZE_MAX)
    frame_size_max = len(_HEADER) + len(view) + block_count * _SIZE.size + len(_END)
    room = bytearray(frame_size_max + _GROWTH_MAX)
    out = memoryview(room)
    out[: len(_HEADER)] = _HEADER
    position = len(_HEADER)
    for begin in range(0, len(view), _BLOCK_SIZE_MAX):
        block = view[begin : begin + _BLOCK_SIZE_MAX]
        start = position + _SIZE.size
        size = cramjam.lz4.compress_block_into(block, out[start:], store_size=False)
        if size < len(block):
            _SIZE.pack_into(out, position, size)
        else:
            size = len(block)
            _SIZE.pack_into(out, position, size | _IS_PLAIN)
            out[start : start + size] = block
        position = start + size
    out[position : position + len(_END)] = _END
    return bytes(out[: position + len(_END)])


def unpack_into(packed: Buffer, room: memoryview) -> int | None:
    """How many plain bytes are at the beginning of `room` now; None if they do not fit."""
    view = memoryview(packed).cast("B")
    if view[: len(_HEADER)] != _HEADER:
        return _unpack_any(packed, room)
    position = len(_HEADER)
    filled = 0
    while True:
        if len(view) - position < _SIZE.size:
            raise CorruptMessage(f"lz4 block at byte {position}: size is cut")
        (size,) = _SIZE.unpack_from(view, position)
        position += _SIZE.size
        if size == 0:
            break
        is_plain = bool(size & _IS_PLAIN)
        size &= ~_IS_PLAIN
        if size > min(len(view) - position, _BLOCK_SIZE_MAX):
            raise CorruptMessage(f"lz4 block at byte {position}: {size} bytes do not fit")
        block = view[position : position + size]
        unpacked = copy_into(block, room[filled:]) if is_plain else _unpack(block, room[filled:])
        if unpacked is None:
            return None
        filled += unpacked
        position += size
    if position < len(view):
        # Another frame behind this one, which nobody is known to write.
        return _unpack_any(packed, room)
    return filled


def _unpack_any(packed: Buffer, room: memoryview) -> int:
    size: int = cramjam.lz4.decompress_into(packed, room)
    return size


def _unpack(block: memoryview, room: memoryview) -> int | None:
    if len(room) >= _BLOCK_SIZE_MAX:
        return _unpack_block(block, room[:_BLOCK_SIZE_MAX])
    # Were it unpacked in place, too little room could not be told from damage.
    plain = memoryview(bytearray(_BLOCK_SIZE_MAX))
    return copy_into(plain[: _unpack_block(block, plain)], room)


def _unpack_block(block: memoryview, room: memoryview) -> int:
    # Without a length the library takes the first bytes for one, if they could be.
    size: int = cramjam.lz4.decompress_block_into(block, room, output_len=_BLOCK_SIZE_MAX)
    return size


def copy_into(plain: memoryview, room: memoryview) -> int | None:
    """As unpacking does, of what is plain already."""
    if len(plain) > len(room):
        return None
    room[: len(plain)] = plain
    return len(plain)
