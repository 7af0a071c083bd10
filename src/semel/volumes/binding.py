"""Whose the volumes under a prefix of a store are, where the journal lies in a folder.

In the folder the file `volumes` says where they lie; in the store two kinds of objects say whose
they are, each created once:

    volumes/owner         which folder they belong to
    volumes/claims/<n>    the nth start of a broker with them

A folder that was copied says of itself what the original does. Whichever of the two is started
first takes the next claim. The other finds it taken and is refused at its start; if it runs, it
stores and removes nothing any more: each would remove what the other needs.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from semel.errors import ConfigError
from semel.journal.names import VOLUMES
from semel.store.seam import ObjectExists, ObjectMissing, Store, StoreError
from semel.world import Randomness

FILE: Final = VOLUMES
OWNER: Final = "volumes/owner"
CLAIMS: Final = "volumes/claims/"
CLUSTER: Final = "cluster/format"
CLAIM_DIGITS: Final = 12
ID_SIZE: Final = 16
FORMAT: Final = 1


class Binding(msgspec.Struct, frozen=True):
    """What the folder says."""

    format: int
    url: str
    owner: str
    claim: int
    nonce: str
    """Of this claim."""


def read(folder: Path) -> Binding | None:
    """None if all that a folder has lies in it. Raises ConfigError."""
    try:
        stored = (folder / FILE).read_bytes()
    except FileNotFoundError:
        return None
    try:
        found = msgspec.json.decode(stored, type=Binding)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{folder / FILE} does not say where volumes lie: {error}") from error
    if found.format > FORMAT:
        raise ConfigError(f"{folder / FILE} has format {found.format}, this Semel reads {FORMAT}")
    return found


def check_named(folder: Path, url: str | None) -> None:
    """That who starts a broker on this folder names a store if it has one. Raises ConfigError."""
    found = read(folder)
    if found is not None and url is None:
        raise ConfigError(
            f"old data of {folder} lies in {found.url}: start it with --volumes {found.url}"
        )


def check_whole(folder: Path) -> None:
    """That a copy of the folder has all of it. Raises ConfigError."""
    found = read(folder)
    if found is not None:
        raise ConfigError(
            f"old data of {folder} lies in {found.url}: stop the broker, and copy the folder and "
            "that path together"
        )


def _write(folder: Path, binding: Binding) -> None:
    """Lasting when it returns."""
    temporary = folder / f"{FILE}.tmp"
    with temporary.open("wb") as file:
        file.write(msgspec.json.encode(binding))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / FILE)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


async def bind(folder: Path, url: str, store: Store, randomness: Randomness) -> int:
    """Take the volumes under this URL for the folder, which is ours. Gives the number of the claim.

    Raises ConfigError, StoreAway, StoreRefused.
    """
    known = read(folder)
    owner = randomness.token_bytes(ID_SIZE).hex() if known is None else known.owner
    if await _get(store, CLUSTER) is not None:
        raise ConfigError(f"{url} holds a cluster: choose another path for volumes")
    found = await _get(store, OWNER)
    if found is None and known is not None and known.url != url:
        raise ConfigError(
            f"old data of {folder} lies in {known.url} and not in {url}: copy all of it there first"
        )
    if found is not None and found.decode() != owner:
        raise ConfigError(f"{url} has volumes of another folder: choose another path for these")
    claim, nonce = 1, randomness.token_bytes(ID_SIZE).hex()
    if known is not None:
        claimed = await _get(store, _key(known.claim))
        if claimed is None:
            # The last start came no further than to say so in the folder, or that is under way.
            claim, nonce = known.claim, known.nonce
        elif claimed.decode() != known.nonce:
            raise ConfigError(_taken(url))
        else:
            claim = known.claim + 1
    binding = Binding(FORMAT, url, owner, claim, nonce)
    _write(folder, binding)
    if found is None:
        await _create(store, OWNER, owner, f"{url} has just become another folder's")
    await _create(store, _key(claim), binding.nonce, _taken(url))
    return claim


def _key(claim: int) -> str:
    return f"{CLAIMS}{claim:0{CLAIM_DIGITS}d}"


def _taken(url: str) -> str:
    return (
        f"another copy of this folder has used {url} since: two cannot share it. Go on with that "
        "copy, or copy the folder and the path in the store together"
    )


async def _get(store: Store, key: str) -> bytes | None:
    try:
        return await store.get(key)
    except ObjectMissing:
        return None


async def _create(store: Store, key: str, content: str, refusal: str) -> None:
    try:
        await store.create(key, [content.encode()])
    except ObjectExists:
        # It may be ours: the request arrived twice.
        if await store.get(key) != content.encode():
            raise ConfigError(refusal) from None


async def check_claim(store: Store, url: str, claim: int) -> None:
    """That nobody has claimed them since. Raises OSError."""
    try:
        newer = await store.list(CLAIMS, _key(claim))
    except StoreError as error:
        raise OSError(f"the claims to {url} cannot be listed: {error}") from error
    if newer:
        raise OSError(_taken(url))
