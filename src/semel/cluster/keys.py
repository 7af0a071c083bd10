"""The key by which the nodes of a cluster know each other, which can be made new.

    cluster/format        has the first
    cluster/key/<number>  another one, created once; that with the highest number counts

Who has only an older one is a stranger. A node that hears one, or is taken for one, looks whether
there is a newer key: so all nodes have it soon after one that has it calls them.
"""

import asyncio
import contextlib
from typing import Final, Protocol

import msgspec

from semel.cluster.format import RPC_KEY_SIZE, ClusterFormat, ClusterRefused
from semel.store.seam import ObjectExists, ObjectMissing, Store, StoreError
from semel.world import Randomness

FOLDER: Final = "cluster/key/"
NUMBER_DIGITS: Final = 6


class _Key(msgspec.Struct, frozen=True):
    rpc_key: bytes


async def with_newest(store: Store, cluster: ClusterFormat) -> ClusterFormat:
    """Raises ClusterRefused, StoreAway, StoreRefused."""
    found = sorted(each.key for each in await store.list(FOLDER))
    if not found:
        return cluster
    try:
        newest = msgspec.json.decode(await store.get(found[-1]), type=_Key)
    except ObjectMissing:
        # An older one goes only when a newer one is there.
        return await with_newest(store, cluster)
    except msgspec.DecodeError as error:
        raise ClusterRefused(f"{found[-1]} is no key of a cluster: {error}") from error
    return msgspec.structs.replace(cluster, rpc_key=newest.rpc_key)


async def rotate(store: Store, cluster: ClusterFormat, randomness: Randomness) -> ClusterFormat:
    """With a new key, which counts from here on. Raises ClusterRefused, StoreAway, StoreRefused."""
    older = sorted(each.key for each in await store.list(FOLDER))
    number = int(older[-1].removeprefix(FOLDER)) + 1 if older else 1
    made = _Key(randomness.token_bytes(RPC_KEY_SIZE))
    key, stored = f"{FOLDER}{number:0{NUMBER_DIGITS}d}", msgspec.json.encode(made)
    try:
        await store.create(key, [stored])
    except ObjectExists:
        # It may be ours: the request arrived twice.
        if await store.get(key) != stored:
            raise ClusterRefused(
                "another key was made in this moment: look, and try again"
            ) from None
    await store.delete(older)
    return msgspec.structs.replace(cluster, rpc_key=made.rpc_key)


class KnownKey(Protocol):
    """What a process knows of it."""

    @property
    def newest(self) -> bytes: ...

    def doubt(self) -> None:
        """Somebody has another one, or may have."""


class OnlyKey:
    """Of processes that were given it, and never get another."""

    def __init__(self, key: bytes) -> None:
        self.newest: Final = key

    def doubt(self) -> None:
        """Nothing: there is no other key to be had, and whoever has another one is a stranger."""


class Keys:
    """What a node that runs knows of it."""

    def __init__(self, store: Store, cluster: ClusterFormat, pause_s: float) -> None:
        self.newest = cluster.rpc_key
        self._store = store
        self._cluster = cluster
        self._pause_s = pause_s
        self._is_doubtful = asyncio.Event()

    def doubt(self) -> None:
        """Somebody has another one, or may have."""
        self._is_doubtful.set()

    async def run(self) -> None:
        """Until it is cancelled. Strangers that call again and again cost a request a pause."""
        while True:
            await self._is_doubtful.wait()
            self._is_doubtful.clear()
            # Whoever calls will call again.
            with contextlib.suppress(StoreError, ClusterRefused):
                self.newest = (await with_newest(self._store, self._cluster)).rpc_key
            await asyncio.sleep(self._pause_s)
