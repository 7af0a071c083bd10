"""The few encodings that generated messages share: variable-length integers, tags, records."""

import struct
from collections.abc import Generator
from typing import Final

from semel.errors import ProtocolError
from semel.types import Buffer

Records = Buffer | list[Buffer]
"""Record batches as one buffer, or as parts that are sent one after the other uncopied."""

VARINT_SIZE_MAX: Final = 5

# An element of 3 bytes becomes objects of 100 or more. These bounds keep what
# one message can take in memory near its own size; the largest messages of
# Kafka's clients stay far below them.
REQUEST_ELEMENT_COUNT_MAX: Final = 2**18
RESPONSE_ELEMENT_COUNT_MAX: Final = 2**21

# Of these many an encoder that works in steps joins in one of them: less than a millisecond.
PIECES_AT_ONCE: Final = 2048

# Below this size, copying into the joined piece costs less than one more part to send.
SCATTER_SIZE_MIN: Final = 512


class Malformed(Exception):
    """What is wrong with the bytes; the caller adds the message, its version and the place."""


DECODING_ERRORS: Final = (Malformed, IndexError, UnicodeDecodeError, struct.error)


def protocol_error(message: str, version: int, start: int, error: Exception) -> ProtocolError:
    """Name the byte at which decoding stopped.

    Decoders keep their place in a local variable, because keeping it anywhere
    else would cost every field of every good message. The innermost frame of
    the failure that has one knows the place.
    """
    position = start
    trace = error.__traceback__
    while trace is not None:
        local = trace.tb_frame.f_locals.get("position")
        if isinstance(local, int):
            position = local
        trace = trace.tb_next
    reason = "the message is cut short" if isinstance(error, IndexError | struct.error) else error
    return ProtocolError(f"{message} v{version}, byte {position}: {reason}")


def unknown_version(message: str, version: int) -> ProtocolError:
    return ProtocolError(f"{message} v{version}: no such version is known")


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned integer of at most 32 bits, and the position behind it."""
    low = buffer[position]
    if low < 0x80:
        return low, position + 1
    high = buffer[position + 1]
    if high < 0x80:
        return low & 0x7F | high << 7, position + 2
    value = 0
    for shift in range(0, 7 * VARINT_SIZE_MAX, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= 2**32:
                raise Malformed("a variable-length integer exceeds 32 bits")
            return value, position
    raise Malformed("a variable-length integer is longer than 5 bytes")


ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return ONE_BYTE[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def skip_tags(buffer: Buffer, position: int) -> int:
    """The position behind a section of tagged fields of which none is known."""
    count, position = read_uvarint(buffer, position)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        if size > len(buffer) - position:
            raise Malformed(f"a tagged field of {size} bytes exceeds the message")
        position += size
    return position


def records_size(records: Records) -> int:
    return sum(map(len, records)) if isinstance(records, list) else len(records)


def put_records(records: Records, size: int, pieces: list[Buffer], output: list[Buffer]) -> None:
    """Add records behind `pieces`, without a copy where that pays."""
    parts = records if isinstance(records, list) else (records,)
    if size < SCATTER_SIZE_MIN:
        pieces.extend(parts)
        return
    output.append(b"".join(pieces))
    pieces.clear()
    output.extend(parts)


def all_steps(encoding: Generator[None, None, list[Buffer]]) -> list[Buffer]:
    """At once."""
    while True:
        try:
            next(encoding)
        except StopIteration as encoded:
            parts: list[Buffer] = encoded.value
            return parts


def null_refused(field: str, version: int) -> ValueError:
    """The value cannot be said in this version; whoever built the message must give another."""
    return ValueError(f"{field} cannot be null in version {version}")
