"""What makes the objects under a prefix one cluster: created once, and never changed.

    cluster/format    format, cluster id, the first key by which nodes know each other, how many
                      partitions the internal topics have, and where the slots lie if not here
    cluster/key/      newer keys (`keys.py`)
    cluster/importing there while a folder is being taken over, and not all of it is there
    cluster/journal   in a store that holds the slots of a cluster which is elsewhere: its id

What all nodes must agree on from the first frame on is here, and nothing else. Format 2 is that of
clusters whose slots lie elsewhere: who does not know of that would look for them here. Format 3 is
that of clusters which begin with several lanes.
"""

import contextlib
from typing import Final, NamedTuple

import msgspec

from semel.errors import NewerFormat, SemelError
from semel.store.probe import probe
from semel.store.seam import ObjectExists, ObjectMissing, Store
from semel.world import Randomness

KEY: Final = "cluster/format"
JOURNAL_KEY: Final = "cluster/journal"
IMPORTING_KEY: Final = "cluster/importing"
JOURNALS: Final = "j/"
FOLDERS: Final = ("cluster/", JOURNALS, "ck/", "ck-parts/", "ix/", "vol/")
"""All that a cluster has."""
FORMAT: Final = 3
FORMAT_OF_ONE_STORE: Final = 1
FORMAT_OF_TWO_STORES: Final = 2
FORMAT_OF_LANES: Final = 3
CLUSTER_ID_SIZE: Final = 16
RPC_KEY_SIZE: Final = 32


class ClusterRefused(SemelError):
    """This store holds no cluster, or another's; the message says what to do."""


class _Format(msgspec.Struct, frozen=True):
    """What every version can read."""

    format: int


class ClusterFormat(_Format, frozen=True):
    cluster_id: bytes
    rpc_key: bytes
    offsets_partition_count: int
    transactions_partition_count: int
    journal: str | None = None
    """Where the slots lie, if not in the store that this is in; told to who does not know."""
    lane_count: int = 1
    """So many lanes it has at least. Those that were added later are said in lane 0."""


class _Claim(msgspec.Struct, frozen=True):
    """By which a store holds the slots of one cluster, and of no other."""

    cluster_id: bytes


class JournalStore(NamedTuple):
    """Where the slots of a cluster lie, if they have a store of their own."""

    store: Store
    shown: str
    """Its name, without what is secret."""


async def create(
    store: Store,
    randomness: Randomness,
    offsets_partition_count: int,
    transactions_partition_count: int,
    journal: JournalStore | None = None,
    lane_count: int = 1,
) -> ClusterFormat:
    """Raises ClusterRefused, UnfitStore, StoreAway, StoreRefused."""
    with contextlib.suppress(ObjectMissing):
        await store.get(KEY)
        raise _exists()
    for each in [store] if journal is None else [store, journal.store]:
        await probe(each, randomness)
        if await each.list(JOURNALS):
            raise ClusterRefused(
                f"there are journals under {JOURNALS}, and a new cluster would take them for its "
                f"own: choose another path in the store, or delete them"
            )
    made = ClusterFormat(
        FORMAT_OF_LANES if lane_count > 1 else _format_of_one_lane(journal),
        randomness.token_bytes(CLUSTER_ID_SIZE),
        randomness.token_bytes(RPC_KEY_SIZE),
        offsets_partition_count,
        transactions_partition_count,
        None if journal is None else journal.shown,
        lane_count,
    )
    await _begin(store, made, journal)
    return made


def _format_of_one_lane(journal: JournalStore | None) -> int:
    return FORMAT_OF_ONE_STORE if journal is None else FORMAT_OF_TWO_STORES


async def _begin(store: Store, made: ClusterFormat, journal: JournalStore | None) -> None:
    if journal is None:
        await _create(store, KEY, made, _exists())
        return
    await _create(journal.store, JOURNAL_KEY, _Claim(made.cluster_id), _claimed(journal.shown))
    try:
        await _create(store, KEY, made, _exists())
    except BaseException:
        # There is no cluster whose slots these could be.
        await journal.store.delete([JOURNAL_KEY])
        raise


# A cluster that is made of what was elsewhere.


async def begin_import(
    store: Store, randomness: Randomness, journal: JournalStore | None = None
) -> None:
    """Claim the stores for a cluster that is still being filled. Raises as `create`."""
    for each in [store] if journal is None else [store, journal.store]:
        for folder in FOLDERS:
            found = [listed.key for listed in await each.list(folder)]
            if found:
                raise _half_imported() if IMPORTING_KEY in found else _not_empty(found[0])
    for each in [store] if journal is None else [store, journal.store]:
        await probe(each, randomness)
    await _create(store, IMPORTING_KEY, _Token(randomness.token_bytes(16)), _half_imported())


async def end_import(
    store: Store,
    randomness: Randomness,
    cluster_id: bytes,
    offsets_partition_count: int,
    transactions_partition_count: int,
    journal: JournalStore | None = None,
) -> ClusterFormat:
    """Everything is copied: from here on it is a cluster. Raises as `create`."""
    made = ClusterFormat(
        _format_of_one_lane(journal),
        cluster_id,
        randomness.token_bytes(RPC_KEY_SIZE),
        offsets_partition_count,
        transactions_partition_count,
        None if journal is None else journal.shown,
    )
    await _begin(store, made, journal)
    await store.delete([IMPORTING_KEY])
    return made


class _Token(msgspec.Struct, frozen=True):
    """Drawn by who creates an object, to tell it from one that another has created."""

    token: bytes


def _not_empty(key: str) -> ClusterRefused:
    return ClusterRefused(
        f"a folder is taken over into an empty place, and in this store there is {key}: "
        f"choose another path"
    )


def _half_imported() -> ClusterRefused:
    return ClusterRefused(
        "the import into this store has not ended, or is under way: to begin anew, delete all "
        "that is under this path, or choose another"
    )


async def _create(store: Store, key: str, value: msgspec.Struct, refusal: ClusterRefused) -> None:
    stored = msgspec.json.encode(value)
    try:
        await store.create(key, [stored])
    except ObjectExists:
        # It may be ours: the request arrived twice.
        if await store.get(key) != stored:
            raise refusal from None


def _exists() -> ClusterRefused:
    return ClusterRefused("there is a cluster in this store already")


def _claimed(shown: str) -> ClusterRefused:
    return ClusterRefused(
        f"{shown} holds the slots of a cluster already: name another database or schema"
    )


async def read(store: Store) -> ClusterFormat:
    """Raises ClusterRefused, NewerFormat, StoreAway, StoreRefused."""
    try:
        stored = await store.get(KEY)
    except ObjectMissing:
        with contextlib.suppress(ObjectMissing):
            await store.get(IMPORTING_KEY)
            raise _half_imported() from None
        raise ClusterRefused(
            "there is no cluster in this store: `semel cluster create --store URL` makes one"
        ) from None
    try:
        its_format = msgspec.json.decode(stored, type=_Format).format
        if its_format > FORMAT:
            raise NewerFormat(f"{KEY} has format {its_format}, this Semel reads up to {FORMAT}")
        return msgspec.json.decode(stored, type=ClusterFormat)
    except msgspec.DecodeError as error:
        raise ClusterRefused(f"{KEY} is not what a cluster begins with: {error}") from error


async def check_journal(cluster: ClusterFormat, journal: JournalStore | None) -> None:
    """That the slots of this cluster lie there. Raises ClusterRefused, StoreAway, StoreRefused."""
    if journal is None:
        if cluster.journal is not None:
            raise ClusterRefused(
                f"the slots of this cluster lie in {cluster.journal}: name it with --journal"
            )
        return
    if cluster.journal is None:
        raise ClusterRefused(
            "the slots of this cluster lie in its store: --journal names another place, and "
            "can be chosen only when a cluster is made"
        )
    try:
        stored = await journal.store.get(JOURNAL_KEY)
        claim = msgspec.json.decode(stored, type=_Claim)
    except (ObjectMissing, msgspec.DecodeError):
        whose = "holds the slots of no cluster"
    else:
        if claim.cluster_id == cluster.cluster_id:
            return
        whose = f"holds the slots of cluster {claim.cluster_id.hex()}"
    raise ClusterRefused(
        f"{journal.shown} {whose}, and not those of cluster {cluster.cluster_id.hex()}, which were "
        f"in {cluster.journal} when it was made"
    )


def check_same(found: bytes, format_: ClusterFormat) -> None:
    """That a journal belongs to this cluster. Raises ClusterRefused."""
    if found and found != format_.cluster_id:
        raise ClusterRefused(
            f"the journal belongs to cluster {found.hex()}, and {KEY} names "
            f"{format_.cluster_id.hex()}"
        )
