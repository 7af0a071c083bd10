"""What makes a store one cluster's: created once, read by every node, refused in a sentence."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import msgspec
import pytest

from semel.cluster import format as cluster_format
from semel.cluster.format import (
    ClusterFormat,
    ClusterRefused,
    JournalStore,
    check_journal,
    check_same,
    create,
    read,
)
from semel.errors import NewerFormat
from semel.store.in_memory import Bucket, MemoryStore
from semel.store.probe import UnfitStore
from semel.store.seam import StoreRefused
from semel.types import Buffer
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
        (b'{"format": 4, "something": "else"}', NewerFormat),
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


def test_slots_that_lie_elsewhere_are_told_by_name_and_found_by_the_clusters_id() -> None:
    store, journal = MemoryStore(Bucket()), MemoryStore(Bucket())
    named = JournalStore(journal, "postgresql://host/db")
    created = run(create(store, RANDOMNESS, 7, 9, named))
    assert run(read(store)) == created
    assert created.format == 2, "a version that knows one store alone must not look there"
    assert b"postgresql://host/db" in store.bucket.objects[cluster_format.KEY]
    assert list(journal.bucket.objects) == [cluster_format.JOURNAL_KEY]
    run(check_journal(created, named))
    with pytest.raises(ClusterRefused, match="lie in postgresql://host/db: name it with --journal"):
        run(check_journal(created, None))
    other = JournalStore(MemoryStore(Bucket()), "postgresql://host/other")
    with pytest.raises(ClusterRefused, match="other holds the slots of no cluster"):
        run(check_journal(created, other))
    run(create(MemoryStore(Bucket()), RANDOMNESS, 7, 9, other))
    with pytest.raises(ClusterRefused, match="other holds the slots of cluster"):
        run(check_journal(created, other))


def test_slots_in_the_store_are_looked_for_nowhere_else() -> None:
    created = made(MemoryStore(Bucket()))
    run(check_journal(created, None))
    with pytest.raises(ClusterRefused, match="lie in its store"):
        run(check_journal(created, JournalStore(MemoryStore(Bucket()), "postgresql://host/db")))


def test_a_store_holds_the_slots_of_one_cluster() -> None:
    journal = JournalStore(MemoryStore(Bucket()), "postgresql://host/db")
    run(create(MemoryStore(Bucket()), RANDOMNESS, 7, 9, journal))
    another = MemoryStore(Bucket())
    with pytest.raises(ClusterRefused, match="host/db holds the slots of a cluster already"):
        run(create(another, RANDOMNESS, 7, 9, journal))
    assert not another.bucket.objects


def test_a_cluster_that_did_not_come_to_be_claims_no_store_for_its_slots() -> None:
    class Full(MemoryStore):
        async def create(self, key: str, parts: Sequence[Buffer]) -> None:
            if key == cluster_format.KEY:
                raise StoreRefused("there is no room")
            await super().create(key, parts)

    journal = MemoryStore(Bucket())
    with pytest.raises(StoreRefused):
        run(create(Full(Bucket()), RANDOMNESS, 7, 9, JournalStore(journal, "there")))
    assert not journal.bucket.objects


def test_what_this_version_writes_later_versions_can_tell() -> None:
    created = made(MemoryStore(Bucket()))
    assert msgspec.json.decode(msgspec.json.encode(created))["format"] == 1
