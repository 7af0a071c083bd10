"""Size-prefixed frames, cut from a stream of bytes and put in front of messages. Does no I/O."""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from semel.errors import ProtocolError
from semel.types import Buffer

SIZE_PREFIX: Final = Struct(">i")


class FrameCutter:
    """Takes bytes as they come and gives back whole frames, without their sizes.

    A size that is negative or above `frame_size_max` is refused as soon as its
    four bytes are there, so that no more than one such frame is ever held. After
    a refusal there is no way to find the next frame: the stream is over.
    """

    def __init__(self, frame_size_max: int) -> None:
        self.frame_size_max = frame_size_max
        self._held = bytearray()
        self._wanted_size = SIZE_PREFIX.size
        self._refusal: ProtocolError | None = None

    def feed(self, received: Buffer) -> Iterator[bytes]:
        """Yield the frames that end within `received`.

        Iterate to the end before the buffer changes and before feeding more.
        """
        if self._refusal is not None:
            raise self._refusal
        position = 0
        limit = len(received)
        while position < limit:
            taken_size = min(self._wanted_size - len(self._held), limit - position)
            if not self._held and limit - position >= SIZE_PREFIX.size:
                size = self._checked_size(SIZE_PREFIX.unpack_from(received, position)[0])
                end = position + SIZE_PREFIX.size + size
                if end <= limit:
                    yield bytes(received[position + SIZE_PREFIX.size : end])
                    position = end
                    continue
            self._held += received[position : position + taken_size]
            position += taken_size
            if len(self._held) == SIZE_PREFIX.size:
                size = self._checked_size(SIZE_PREFIX.unpack(self._held)[0])
                self._wanted_size = SIZE_PREFIX.size + size
            if len(self._held) == self._wanted_size:
                yield self._finish()

    def _finish(self) -> bytes:
        frame = bytes(memoryview(self._held)[SIZE_PREFIX.size :])
        self._held = bytearray()
        self._wanted_size = SIZE_PREFIX.size
        return frame

    def _checked_size(self, size: int) -> int:
        if 0 <= size <= self.frame_size_max:
            return size
        self._refusal = ProtocolError(
            f"a frame of {size} bytes is announced; 0 to {self.frame_size_max} are taken"
        )
        self._held = bytearray()
        raise self._refusal


def frame(header: bytes, body: list[Buffer]) -> list[Buffer]:
    """The parts to send: size and header joined with the first part, the others uncopied."""
    size = len(header) + sum(map(len, body))
    if not body:
        return [SIZE_PREFIX.pack(size) + header]
    return [b"".join((SIZE_PREFIX.pack(size), header, body[0])), *body[1:]]
