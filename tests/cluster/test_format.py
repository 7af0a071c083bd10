"""What makes a store one cluster's: created once, read by every node, refused in a sentence."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec
import pytest

from semel.cluster import format as cluster_format
from semel.cluster.format import ClusterFormat, ClusterRefused, check_same, create, read
from semel.errors import NewerFormat
from semel.store.in_memory import Bucket, MemoryStore
from semel.store.probe import UnfitStore
from semel.verify.world.loop import SeededRandomness

T = TypeVar("T")
RANDOMNESS = SeededRandomness(1)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def made(store: MemoryStore) -> ClusterFormat:
    return run(create(store, RANDOMNESS, 7, 9))


def test_what_was_created_is_what_every_node_reads() -> None:
    store = MemoryStore(Bucket())
    created = made(store)
    assert run(read(store)) == created
    assert (created.offsets_partition_count, created.transactions_partition_count) == (7, 9)
    assert list(store.bucket.objects) == [cluster_format.KEY], "the probe leaves nothing behind"


def test_a_cluster_is_begun_once() -> None:
    store = MemoryStore(Bucket())
    created = made(store)
    with pytest.raises(ClusterRefused, match="there is a cluster in this store already"):
        made(store)
    assert run(read(store)) == created


def test_journals_of_nobody_are_not_taken_over() -> None:
    store = MemoryStore(Bucket())
    store.bucket.objects["j/0000/000000000000"] = b"of another"
    with pytest.raises(ClusterRefused, match="there are journals"):
        made(store)


def test_where_there_is_none_a_node_says_how_to_make_one() -> None:
    with pytest.raises(ClusterRefused, match="semel cluster create"):
        run(read(MemoryStore(Bucket())))


@pytest.mark.parametrize(
    ("stored", "refusal"),
    [
        (b'{"format": 2, "something": "else"}', NewerFormat),
        (b"not what we write", ClusterRefused),
        (b'{"format": 1}', ClusterRefused),
    ],
)
def test_what_cannot_be_read_is_refused(stored: bytes, refusal: type[Exception]) -> None:
    store = MemoryStore(Bucket())
    store.bucket.objects[cluster_format.KEY] = stored
    with pytest.raises(refusal, match="cluster/format"):
        run(read(store))


def test_a_store_that_creates_twice_begins_no_cluster() -> None:
    class Careless(Bucket):
        def create(self, key: str, content: bytes) -> None:
            self.objects[key] = content

    store = MemoryStore(Careless())
    with pytest.raises(UnfitStore):
        made(store)
    assert cluster_format.KEY not in store.bucket.objects


def test_a_journal_of_another_cluster_is_refused() -> None:
    created = made(MemoryStore(Bucket()))
    check_same(b"", created)
    check_same(created.cluster_id, created)
    with pytest.raises(ClusterRefused, match="belongs to cluster"):
        check_same(b"x" * 16, created)


def test_what_this_version_writes_later_versions_can_tell() -> None:
    created = made(MemoryStore(Bucket()))
    assert msgspec.json.decode(msgspec.json.encode(created))["format"] == 1
