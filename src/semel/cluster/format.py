"""What makes the objects under a prefix one cluster: created once, and never changed.

    cluster/format    format, cluster id, the key by which nodes know each other, and how many
                      partitions the internal topics have

What all nodes must agree on from the first frame on is here, and nothing else.
"""

import contextlib
from typing import Final

import msgspec

from semel.errors import NewerFormat, SemelError
from semel.store.probe import probe
from semel.store.seam import ObjectExists, ObjectMissing, Store
from semel.world import Randomness

KEY: Final = "cluster/format"
JOURNALS: Final = "j/"
FORMAT: Final = 1
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


async def create(
    store: Store,
    randomness: Randomness,
    offsets_partition_count: int,
    transactions_partition_count: int,
) -> ClusterFormat:
    """Raises ClusterRefused, UnfitStore, StoreAway, StoreRefused."""
    with contextlib.suppress(ObjectMissing):
        await store.get(KEY)
        raise _exists()
    await probe(store, randomness)
    if await store.list(JOURNALS):
        raise ClusterRefused(
            f"there are journals under {JOURNALS}, and a new cluster would take them for its own: "
            f"choose another path in the store, or delete them"
        )
    made = ClusterFormat(
        FORMAT,
        randomness.token_bytes(CLUSTER_ID_SIZE),
        randomness.token_bytes(RPC_KEY_SIZE),
        offsets_partition_count,
        transactions_partition_count,
    )
    stored = msgspec.json.encode(made)
    try:
        await store.create(KEY, [stored])
    except ObjectExists:
        # It may be ours: the request arrived twice.
        if await store.get(KEY) != stored:
            raise _exists() from None
    return made


def _exists() -> ClusterRefused:
    return ClusterRefused("there is a cluster in this store already")


async def read(store: Store) -> ClusterFormat:
    """Raises ClusterRefused, NewerFormat, StoreAway, StoreRefused."""
    try:
        stored = await store.get(KEY)
    except ObjectMissing:
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


def check_same(found: bytes, format_: ClusterFormat) -> None:
    """That a journal belongs to this cluster. Raises ClusterRefused."""
    if found and found != format_.cluster_id:
        raise ClusterRefused(
            f"the journal belongs to cluster {found.hex()}, and {KEY} names "
            f"{format_.cluster_id.hex()}"
        )
