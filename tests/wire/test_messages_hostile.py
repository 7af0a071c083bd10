"""Bytes that lie: every decoder answers with ProtocolError or a message, and nothing else."""

import tracemalloc
from collections.abc import Iterator
from random import Random
from struct import pack
from typing import Any

import pytest

from semel.errors import ProtocolError
from semel.wire.apis import APIS, BY_KEY, Api
from semel.wire.primitives import REQUEST_ELEMENT_COUNT_MAX, uvarint
from support.compiled import plain_frames
from support.kio_values import kio_bytes, kio_class, random_value

SIZE_MAX = 600


def messages(*, flexible_only: bool = False) -> list[Any]:
    return [
        pytest.param(api, version, direction, id=f"{api.name}-{direction}-v{version}")
        for api in APIS
        for version in range(api.version_min, api.version_max + 1)
        for direction in ("request", "response")
        if version >= api.flexible_version_min or not flexible_only
    ]


def valid_bytes(api: Api, version: int, direction: str, random: Random) -> bytes:
    """A valid message of moderate size, the fullest of a few."""
    kio = kio_class(api.module, version, direction)
    found = [kio_bytes(random_value(kio, random)) for _ in range(8)]
    return max((raw for raw in found if len(raw) <= SIZE_MAX), key=len, default=min(found, key=len))


def some_positions(size: int, random: Random) -> list[int]:
    return sorted(random.sample(range(size), min(size, 40)))


@pytest.mark.parametrize(("api", "version", "direction"), messages())
def test_a_message_cut_anywhere_is_refused(api: Api, version: int, direction: str) -> None:
    random = Random(f"cut {api.name} {version} {direction}")
    decode = getattr(api, f"decode_{direction}")
    raw = valid_bytes(api, version, direction, random)
    for size in some_positions(len(raw), random):
        with pytest.raises(ProtocolError, match=f"{api.name} {direction} v{version}, byte "):
            decode(raw[:size], 0, version)
        with pytest.raises(ProtocolError):
            decode(memoryview(raw)[:size], 0, version)


def broken(raw: bytes, random: Random) -> Iterator[bytes]:
    for position in some_positions(len(raw), random):
        before, after = raw[:position], raw[position + 1 :]
        for byte in (0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)):
            yield before + bytes((byte,)) + after
        yield before + after
        yield before + random.randbytes(3) + after
        yield before + b"\xff\xff\xff\xff\x0f" + after
        yield before + pack(">i", random.choice((-2, 2**31 - 1, -(2**31)))) + raw[position + 4 :]


@pytest.mark.parametrize(("api", "version", "direction"), messages())
def test_one_broken_field_gives_a_message_or_a_refusal(
    api: Api, version: int, direction: str
) -> None:
    random = Random(f"break {api.name} {version} {direction}")
    decode = getattr(api, f"decode_{direction}")
    raw = valid_bytes(api, version, direction, random)
    noise = (random.randbytes(random.randrange(80)) for _ in range(50))
    for mutant in (*broken(raw, random), *noise):
        try:
            _, position = decode(mutant, 0, version)
        except ProtocolError:
            continue
        assert position <= len(mutant)


@pytest.mark.parametrize(("api", "version", "direction"), messages(flexible_only=True))
def test_tags_that_nobody_knows_are_skipped(api: Api, version: int, direction: str) -> None:
    random = Random(f"tags {api.name} {version} {direction}")
    decode = getattr(api, f"decode_{direction}")
    kio = kio_class(api.module, version, direction)
    raw = kio_bytes(random_value(kio, random, tags=False))
    assert raw[-1:] == b"\0"
    message, _ = decode(raw, 0, version)
    tagged = raw[:-1] + b"\x02" + b"\x63\x03abc" + b"\xc8\x01\x00"
    assert decode(tagged, 0, version) == (message, len(tagged))
    for lie in (b"\x01\x63\x04abc", b"\x02\x63\x03abc", b"\x01\x63\xff\xff\xff\xff\x0f"):
        with pytest.raises(ProtocolError):
            decode(raw[:-1] + lie, 0, version)


@pytest.mark.parametrize("said_size", [0, 7, 9])
def test_a_known_tag_must_have_the_size_it_says(said_size: int) -> None:
    before = pack(">h", 0) + compact(1) + pack(">i", 0)
    epoch = pack(">q", 5)
    response, _ = BY_KEY[18].decode_response(before + compact(1, 1, 8, epoch), 0, 3)
    assert response.finalized_features_epoch == 5
    with pytest.raises(ProtocolError, match="another size"):
        BY_KEY[18].decode_response(before + compact(1, 1, said_size, epoch, 0), 0, 3)


def compact(*parts: bytes | int) -> bytes:
    return b"".join(part if isinstance(part, bytes) else uvarint(part) for part in parts)


PRODUCE = BY_KEY[0]
METADATA = BY_KEY[3]
NO_TRANSACTION = b"\0" + pack(">hi", -1, 1000)


@pytest.mark.parametrize(
    ("body", "version", "reason"),
    [
        (compact(NO_TRANSACTION, 0, 0), 9, "topic_data is null"),
        (compact(NO_TRANSACTION, 2, 0, 1, 0, 0), 9, "name is null"),
        (compact(NO_TRANSACTION, 2, 3, b"\xc3\x28", 1, 0, 0), 9, "utf-8"),
        (compact(NO_TRANSACTION, 2, 4, b"\xed\xa0\x80", 1, 0, 0), 9, "utf-8"),
        (compact(NO_TRANSACTION, 2**31, 0), 9, "cannot have 2147483647 elements"),
        (compact(NO_TRANSACTION, b"\x80\x80\x80\x80\x80\x01"), 9, "longer than 5 bytes"),
        (compact(NO_TRANSACTION, b"\xff\xff\xff\xff\x1f"), 9, "exceeds 32 bits"),
        (compact(NO_TRANSACTION, 1), 9, "cut short"),
        (pack(">h", -2) + bytes(10), 3, "negative length"),
        (pack(">hhii", -1, 1, 0, -1), 3, "topic_data is null"),
        (pack(">hhii", -1, 1, 0, -7), 3, "topic_data is null"),
        (pack(">hhii", -1, 1, 0, 2**31 - 1), 3, "cannot have 2147483647 elements"),
        (pack(">hhiihiii", -1, 1, 0, 1, 0, 1, 5, -2), 3, "negative length"),
        (pack(">hhiihiii", -1, 1, 0, 1, 0, 1, 5, 1), 3, "cut short"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_where(body: bytes, version: int, reason: str) -> None:
    with pytest.raises(ProtocolError, match=f"Produce request v{version}, byte .*{reason}"):
        PRODUCE.decode_request(body, 0, version)


@plain_frames
def test_a_refusal_names_the_byte_behind_the_last_good_field() -> None:
    body = compact(NO_TRANSACTION, 2, 4, b"abc", 0, 0, 0)
    with pytest.raises(ProtocolError, match="byte 15: partition_data is null"):
        PRODUCE.decode_request(b"12" + body, 2, 9)


@pytest.mark.parametrize("version", [-1, 0, 2, 14, 32767])
def test_a_version_that_is_not_known_is_refused(version: int) -> None:
    with pytest.raises(ProtocolError, match=f"v{version}"):
        PRODUCE.decode_request(bytes(100), 0, version)
    with pytest.raises(ProtocolError, match=f"v{version}"):
        PRODUCE.encode_request(PRODUCE.messages.ProduceRequest(), version)


def peak_memory(decode: Any, body: bytes, version: int) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decode(body, 0, version)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_count_that_lies_allocates_nothing() -> None:
    PRODUCE.decode_request(compact(NO_TRANSACTION, 1, 0), 0, 9)
    for body, version in (
        (compact(NO_TRANSACTION, 2**31, 0), 9),
        (compact(NO_TRANSACTION, 2, 1, 2**31, 0), 9),
        (pack(">hhii", -1, 1, 0, 2**31 - 1), 3),
        (compact(NO_TRANSACTION, 1, 2**32 - 1, bytes(10)), 9),
        (compact(NO_TRANSACTION, 2, 2**31), 9),
    ):
        assert peak_memory(PRODUCE.decode_request, body, version) < 20_000


def test_many_short_elements_cannot_become_many_objects() -> None:
    topic = compact(1, 1, 0)
    count = REQUEST_ELEMENT_COUNT_MAX + 1
    body = compact(NO_TRANSACTION, count + 1, topic * count, 0)
    assert peak_memory(PRODUCE.decode_request, body, 9) < 20_000
    nested = compact(1, count // 2 + 1, compact(pack(">i", 1), 0, 0) * (count // 2), 0)
    with pytest.raises(ProtocolError, match="partition_data cannot have"):
        PRODUCE.decode_request(compact(NO_TRANSACTION, 3, nested * 2, 0), 0, 9)


def test_as_many_elements_as_are_allowed_are_decoded() -> None:
    count = REQUEST_ELEMENT_COUNT_MAX
    name = compact(bytes(16), 2, b"x", 0)
    body = compact(count + 1, name * count, b"\0\0", 0)
    request, _ = METADATA.decode_request(body, 0, 12)
    assert len(request.topics) == count
