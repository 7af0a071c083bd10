"""Many packed pieces in one buffer, however much they grow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.client.columns.decode import Unpacked
from semel.errors import CorruptMessage
from semel.records.compression import OUTPUT_SIZE_MAX, Compression, UnpacksTooLarge, compress

pieces = st.lists(
    st.tuples(
        st.sampled_from(Compression),
        st.binary(max_size=200) | st.binary(min_size=1, max_size=3).map(lambda one: one * 90_000),
    )
)


@given(pieces)
def test_each_piece_is_found_where_it_is_said_to_be(given: list[tuple[Compression, bytes]]) -> None:
    packed = [(compression, bytes(compress(compression, plain))) for compression, plain in given]
    unpacked = Unpacked(sum(len(piece) for _, piece in packed))
    for compression, piece in packed:
        unpacked.add(compression, memoryview(piece))
    found = [bytes(unpacked.content[begin:end]) for begin, end in unpacked.spans]
    assert found == [plain for _, plain in given]
    assert bytes(unpacked.content) == b"".join(found)


def test_a_bomb_is_refused_and_a_damaged_piece_named() -> None:
    bomb = bytes(compress(Compression.ZSTD, bytes(OUTPUT_SIZE_MAX + 1)))
    with pytest.raises(UnpacksTooLarge):
        Unpacked(len(bomb)).add(Compression.ZSTD, memoryview(bomb))
    with pytest.raises(CorruptMessage, match="of zstd do not unpack"):
        Unpacked(len(bomb)).add(Compression.ZSTD, memoryview(bomb)[4:])
