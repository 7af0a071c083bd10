"""One connection to a broker without its socket: requests become bytes, bytes become replies.

Replies come in the order of the requests, so the next one is always for the oldest request
that is waiting; a correlation id that says otherwise ends the connection.
"""

import sys
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, TypeVar

from semel.client.connecting.topic_ids import Names, give_names, version_for
from semel.errors import ProtocolError, UnsupportedVersion
from semel.types import Buffer
from semel.wire import apis
from semel.wire.framing import SIZE_PREFIX, frame
from semel.wire.headers import RequestHeader, decode_response_header, encode_request_header
from semel.wire.messages import api_versions

_RequestT_contra = TypeVar("_RequestT_contra", contravariant=True)
_ReplyT_co = TypeVar("_ReplyT_co", covariant=True)

REPLY_SIZE_MAX = 256 * 1024 * 1024
_CHUNK_SIZE = 64 * 1024
_KEPT_SIZES = range(1024 * 1024, 32 * 1024 * 1024)
_KEPT_COUNT = 2
"""One is read while the next is received."""

# Every broker since 2.4 knows this version. An older one refuses it in ways of its own, so its
# refusal is not read any further: version 0 is known to all.
_API_VERSIONS_VERSION = 3
_API_VERSIONS_VERSION_OF_ALL = 0

_TRANSACTION_VERSION = "transaction.version"
IMPLICIT_PARTITIONS = 2
"""The transaction version from which on a partition joins a transaction by being written to."""
# These announce that version, which a cluster may know without having agreed on it:
# Produce, EndTxn, TxnOffsetCommit.
_VERSIONS_MAX_BEFORE = {0: 11, 26: 4, 28: 4}


class FrameReceiver:
    """Gives room for the next bytes, and is told how many have come.

    They are received where they will be read: a large reply is not copied on its way.

    Small frames are cut from a chunk that many of them share. One that is not whole when its
    chunk ends gets memory of its own, and the rest of it is received there.
    """

    def __init__(self, frame_size_max: int) -> None:
        self._frame_size_max = frame_size_max
        self._chunk = bytearray(_CHUNK_SIZE)
        self._held = 0
        self._frame: memoryview | None = None
        self._filled = 0
        self._kept: deque[bytearray] = deque(maxlen=_KEPT_COUNT)

    def room(self) -> memoryview:
        if self._frame is not None:
            return self._frame[self._filled :]
        return memoryview(self._chunk)[self._held :]

    def advance(self, size: int) -> Iterator[Buffer]:
        """The frames that are whole now, without their sizes; iterate to the end."""
        if self._frame is not None:
            self._filled += size
            if self._filled == len(self._frame):
                frame, self._frame = self._frame, None
                yield frame
            return
        self._held += size
        position = 0
        while self._held - position >= SIZE_PREFIX.size:
            frame_size = self._size_at(position)
            begin = position + SIZE_PREFIX.size
            if frame_size > self._held - begin:
                self._begin_frame(frame_size, begin)
                return
            yield bytes(memoryview(self._chunk)[begin : begin + frame_size])
            position = begin + frame_size
        self._chunk[: self._held - position] = self._chunk[position : self._held]
        self._held -= position

    def _size_at(self, position: int) -> int:
        (size,) = SIZE_PREFIX.unpack_from(self._chunk, position)
        if not 0 <= size <= self._frame_size_max:
            raise ProtocolError(
                f"a frame of {size} bytes is announced; 0 to {self._frame_size_max} are taken"
            )
        return int(size)

    def _begin_frame(self, frame_size: int, begin: int) -> None:
        self._frame = self._memory(frame_size)
        self._filled = self._held - begin
        self._frame[: self._filled] = memoryview(self._chunk)[begin : self._held]
        self._held = 0

    def _memory(self, size: int) -> memoryview:
        if size not in _KEPT_SIZES:
            return memoryview(bytearray(size))
        for kept in self._kept:
            # Three: the one who keeps it, this loop, and the question itself.
            if len(kept) >= size and sys.getrefcount(kept) == 3:
                return memoryview(kept)[:size]
        # Fresh pages cost as much as receiving into them, so memory that no one reads any more
        # is taken again. Sizes are rounded up, as those of fetches differ a little.
        fresh = bytearray(-(-size // _KEPT_SIZES.start) * _KEPT_SIZES.start)
        self._kept.append(fresh)
        return memoryview(fresh)[:size]


class Messages(Protocol[_RequestT_contra, _ReplyT_co]):
    """The module of one API in `semel.wire.messages`."""

    @property
    def API_KEY(self) -> int: ...  # noqa: N802 - the name is that of a constant in a module.

    def encode_request(self, message: _RequestT_contra, version: int) -> list[Buffer]: ...

    def decode_response(
        self, buffer: Buffer, position: int, version: int
    ) -> tuple[_ReplyT_co, int]: ...


class VersionRange(NamedTuple):
    min: int
    max: int


class _Waiting(NamedTuple):
    correlation_id: int
    messages: Messages[Any, Any]
    version: int
    names: Names | None
    """Of the topics that were asked for by their ids."""


class Connection:
    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._next_correlation_id = 0
        self._waiting: deque[_Waiting] = deque()
        self._receiver = FrameReceiver(REPLY_SIZE_MAX)
        self._api_versions_version = _API_VERSIONS_VERSION
        self.versions: dict[int, VersionRange] | None = None
        """What the broker said it knows; until then only ApiVersions may be asked."""
        self.transaction_version = 0
        """What the whole cluster has agreed on, as the broker said."""

    def version_of(self, api_key: int) -> int:
        """The highest version of this API that both sides know."""
        api = apis.BY_KEY[api_key]
        if self.versions is None:
            assert api_key == apis.API_VERSIONS_KEY, "versions are not negotiated yet"
            return self._api_versions_version
        known = self.versions.get(api_key)
        if known is None:
            raise UnsupportedVersion(f"the broker does not know {api.name}")
        version = min(known.max, api.version_max)
        if self.transaction_version < IMPLICIT_PARTITIONS:
            version = min(version, _VERSIONS_MAX_BEFORE.get(api_key, version))
        if version < max(known.min, api.version_min):
            raise UnsupportedVersion(
                f"{api.name}: the broker knows versions {known.min} to {known.max}, "
                f"this client {api.version_min} to {api.version_max}"
            )
        return version

    def request(
        self,
        messages: Messages[_RequestT_contra, Any],
        message: _RequestT_contra,
        *,
        has_reply: bool = True,
    ) -> tuple[int, list[Buffer]]:
        """The correlation id of this request, and the bytes to send."""
        api = apis.BY_KEY[messages.API_KEY]
        version, names = version_for(api.key, message, self.version_of(api.key))
        correlation_id = self._next_correlation_id
        header = RequestHeader(api, version, correlation_id, self._client_id)
        parts = frame(encode_request_header(header), messages.encode_request(message, version))
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        if has_reply:
            self._waiting.append(_Waiting(correlation_id, messages, version, names))
        return correlation_id, parts

    def room(self) -> memoryview:
        """Where the next bytes from the broker belong."""
        return self._receiver.room()

    def advance(self, size: int) -> Iterator[tuple[int, Any]]:
        """The replies that are whole with these bytes, each with its correlation id."""
        return map(self._reply, self._receiver.advance(size))

    def _reply(self, reply: Buffer) -> tuple[int, Any]:
        if not self._waiting:
            raise ProtocolError("the broker sent a reply though nothing was asked")
        expected_id, messages, version, names = self._waiting.popleft()
        api = apis.BY_KEY[messages.API_KEY]
        correlation_id, position = decode_response_header(reply, 0, api, version)
        if correlation_id != expected_id:
            raise ProtocolError(
                f"the broker answered request {correlation_id}, it was the turn of {expected_id}"
            )
        is_api_versions = api.key == apis.API_VERSIONS_KEY
        if is_api_versions and _is_version_refused(reply, position):
            self._api_versions_version = _API_VERSIONS_VERSION_OF_ALL
            return correlation_id, api_versions.ApiVersionsResponse(UnsupportedVersion.code, [])
        message, _ = messages.decode_response(reply, position, version)
        if is_api_versions:
            self._learn(message)
        elif names is not None:
            give_names(api.key, message, names)
        return correlation_id, message

    def _learn(self, reply: api_versions.ApiVersionsResponse) -> None:
        self.versions = {
            known.api_key: VersionRange(known.min_version, known.max_version)
            for known in reply.api_keys
        }
        for feature in reply.finalized_features:
            if feature.name == _TRANSACTION_VERSION:
                self.transaction_version = feature.max_version_level


def _is_version_refused(reply: Buffer, position: int) -> bool:
    return reply[position : position + 2] == UnsupportedVersion.code.to_bytes(2, "big")
