"""Where records go."""

from collections import Counter

import pytest

from semel.client.producing.partitioners import make_partitioner
from semel.errors import ConfigError


def test_a_key_always_goes_where_kafka_puts_it() -> None:
    partitioner = make_partitioner("murmur2", 1_000, 0)
    # From Kafka's own tests of murmur2: "21" hashes to -973932308, "foobar" to -790332482.
    for key, digest in ((b"21", -973932308), (b"foobar", -790332482)):
        assert partitioner.choose("t", key, 10, 100) == (digest & 0x7FFFFFFF) % 100


def test_without_a_key_a_partition_is_kept_for_a_batch_and_then_it_is_the_next_ones_turn() -> None:
    partitioner = make_partitioner("murmur2", 1_000, 5)
    chosen = [partitioner.choose("t", None, 100, 3) for _ in range(40)]
    assert chosen == [2] * 10 + [0] * 10 + [1] * 10 + [2] * 10
    assert partitioner.choose("other", None, 100, 3) == 2


def test_round_robin_is_even_whatever_the_key() -> None:
    partitioner = make_partitioner("round_robin", 1_000, 7)
    chosen = Counter(partitioner.choose("t", b"same", 100, 4) for _ in range(40))
    assert chosen == {0: 10, 1: 10, 2: 10, 3: 10}


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="sideways"):
        make_partitioner("sideways", 1_000, 0)
