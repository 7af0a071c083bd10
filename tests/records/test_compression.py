"""Compression against other libraries, and bombs that stay small."""

import contextlib
import gzip
import random

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from kafka import codec as kafka_codec

from semel.errors import CorruptMessage, UnsupportedCompressionType
from semel.records.compression import Compression, UnpacksTooLarge, compress, decompress

PACKED = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]

plain_bytes = st.binary(max_size=2000) | st.binary(min_size=1, max_size=9).map(
    lambda piece: piece * 20_000
)


def unpacked_elsewhere(compression: Compression, packed: bytes) -> bytes:
    match compression:
        case Compression.GZIP:
            return gzip.decompress(packed)
        case Compression.SNAPPY:
            return bytes(kafka_codec.snappy_decode(packed))
        case Compression.LZ4:
            return bytes(lz4.frame.decompress(packed))
        case _:
            return zstandard.ZstdDecompressor().decompressobj().decompress(packed)


def packed_elsewhere(compression: Compression, plain: bytes) -> bytes:
    match compression:
        case Compression.GZIP:
            return gzip.compress(plain)
        case Compression.SNAPPY:
            return bytes(snappy.compress(plain))
        case Compression.LZ4:
            return bytes(lz4.frame.compress(plain, block_linked=False))
        case _:
            return zstandard.ZstdCompressor(write_content_size=False).compress(plain)


@pytest.mark.parametrize("compression", PACKED)
@given(plain_bytes)
def test_other_libraries_unpack_what_we_pack_and_the_other_way_round(
    compression: Compression, plain: bytes
) -> None:
    packed = bytes(compress(compression, plain))
    assert decompress(compression, packed) == plain
    if plain:  # kafka-python takes a xerial header without blocks for a raw block.
        assert unpacked_elsewhere(compression, packed) == plain
    assert decompress(compression, packed_elsewhere(compression, plain)) == plain


def test_lz4_frames_begin_as_those_of_kafkas_own_clients() -> None:
    # Blocks that do not refer to each other, or Java refuses them; no checksums; of 64 KiB.
    assert bytes(compress(Compression.LZ4, b"abc" * 100_000))[:7].hex() == "04224d18604082"


@given(st.randoms(use_true_random=False), st.integers(0, 200_000), st.booleans())
def test_lz4_of_any_size_that_does_or_does_not_get_smaller(
    source: random.Random, size: int, is_noise: bool
) -> None:
    plain = source.randbytes(size) if is_noise else b"0123456789"[:9] * (size // 9)
    packed = bytes(compress(Compression.LZ4, plain))
    assert bytes(lz4.frame.decompress(packed)) == plain
    assert len(packed) <= len(plain) + 4 * (len(plain) // 65_536 + 1) + 11
    assert decompress(Compression.LZ4, packed) == plain
    assert decompress(Compression.LZ4, packed, output_size_max=len(plain)) == plain


def test_lz4_frames_behind_each_other_are_read() -> None:
    frame = bytes(compress(Compression.LZ4, b"once" * 1000))
    assert decompress(Compression.LZ4, frame + frame) == b"once" * 2000
    with pytest.raises(CorruptMessage):
        decompress(Compression.LZ4, frame + b"no frame")


@pytest.mark.parametrize("has_checksums", [False, True])
@pytest.mark.parametrize("is_linked", [False, True])
@pytest.mark.parametrize("block_size", [lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX4MB])
def test_lz4_frames_of_every_kind_are_read(
    block_size: int, is_linked: bool, has_checksums: bool
) -> None:
    plain = b"".join(b"%d is not %d\n" % (number, number + 1) for number in range(20_000))
    packed = lz4.frame.compress(
        plain,
        block_size=block_size,
        block_linked=is_linked,
        block_checksum=has_checksums,
        content_checksum=has_checksums,
        store_size=not is_linked,
    )
    assert decompress(Compression.LZ4, packed) == plain


@pytest.mark.parametrize("compression", PACKED)
@given(st.data())
def test_damage_is_refused_or_gives_bytes_within_the_limit(
    compression: Compression, data: st.DataObject
) -> None:
    packed = bytearray(compress(compression, b"once and only once, " * 5000))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(packed[: data.draw(st.integers(0, len(packed)))])
    with contextlib.suppress(CorruptMessage):
        assert len(decompress(compression, cut, output_size_max=200_000)) <= 200_000


@given(plain_bytes)
def test_both_ways_of_writing_snappy_are_read(plain: bytes) -> None:
    xerial = kafka_codec.snappy_encode(plain, xerial_compatible=True)
    assert decompress(Compression.SNAPPY, xerial) == plain


@pytest.mark.parametrize("compression", PACKED)
def test_a_bomb_is_refused_at_the_limit(compression: Compression) -> None:
    bomb = packed_elsewhere(compression, bytes(10_000_000))
    with pytest.raises(UnpacksTooLarge):
        decompress(compression, bomb, output_size_max=9_999_999)
    assert len(decompress(compression, bomb, output_size_max=10_000_000)) == 10_000_000


def test_a_xerial_stream_is_bounded_over_all_its_blocks() -> None:
    stream = kafka_codec.snappy_encode(bytes(1_000_000), xerial_compatible=True)
    with pytest.raises(CorruptMessage):
        decompress(Compression.SNAPPY, stream, output_size_max=999_999)


@pytest.mark.parametrize("compression", PACKED)
@given(st.binary(max_size=300))
def test_junk_is_corrupt_or_something_small(compression: Compression, junk: bytes) -> None:
    with contextlib.suppress(CorruptMessage):
        assert len(decompress(compression, junk, output_size_max=1 << 16)) <= 1 << 16


@pytest.mark.parametrize("compression", [5, 6, 7])
def test_an_unknown_type_is_named(compression: int) -> None:
    with pytest.raises(UnsupportedCompressionType, match=str(compression)):
        compress(compression, b"x")
    with pytest.raises(UnsupportedCompressionType, match=str(compression)):
        decompress(compression, b"x")
