"""The zigzag varints inside records: small numbers of either sign in few bytes."""

from semel.errors import CorruptMessage
from semel.types import Buffer

_SIZE_MAX = 10


def append_varint(out: bytearray, value: int) -> None:
    if 0 <= value < 0x40:  # Nearly all of them, as below.
        out.append(value << 1)
        return
    number = (value << 1) ^ (value >> 63)
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The number at `position` and where the next thing begins."""
    number = 0
    shift = 0
    try:
        first = buffer[position]
        if first < 0x80:  # Nearly all of them: lengths and deltas are small.
            return (first >> 1) ^ -(first & 1), position + 1
        for next_position in range(position + 1, position + _SIZE_MAX + 1):
            byte = buffer[next_position - 1]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                if number >> 64:
                    break
                return (number >> 1) ^ -(number & 1), next_position
            shift += 7
    except IndexError:
        raise CorruptMessage(f"varint at byte {position} is cut") from None
    raise CorruptMessage(f"varint at byte {position} has more than 64 bits")
