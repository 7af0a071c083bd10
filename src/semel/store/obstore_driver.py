"""Stores that are reached through `obstore`: S3, GCS, Azure, all that speak S3, and a local folder.

A call here is one request. The library would try again by itself, and hide from us that a create
may have been done before; it may only where parts of a large object are sent, which nobody sees.
"""

import asyncio
import atexit
import contextlib
import os
import time
from collections.abc import AsyncIterable, Awaitable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, from_url

from semel.errors import ConfigError
from semel.store.obstore_errors import BehindTheEnd, reason, translate
from semel.store.seam import (
    CREATE_BYTES_MAX,
    PART_BYTES,
    ObjectMissing,
    StoreAway,
    StoredObject,
    StoreRefused,
)
from semel.store.settings import StoreSettings
from semel.types import Buffer

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

PARTS_AT_ONCE: Final = 4
PART_RETRY_COUNT: Final = 5
DELETES_AT_ONCE: Final = 16
BULK_DELETE_COUNT: Final = 1000
GRACE_S: Final = 1.0
"""Left to the library to say by itself that its time is over."""
ENDPOINTS: Final = {"s3": "endpoint", "az": "endpoint", "gs": "base_url"}
ENDPOINT_VARIABLES: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")

LARGE_PART_BYTES: Final = 64 * 2**10
UNSIGNED: Final = "unsigned_payload"

LAST_PAUSE_S: Final = 0.05

Result = TypeVar("Result")

# The library's threads let go of what they answered a moment after they have, and abort the process
# if the interpreter has ended by then.
atexit.register(time.sleep, LAST_PAUSE_S)


class ObstoreDriver:
    def __init__(
        self,
        store: "ObjectStore",
        patient: "ObjectStore",
        *,
        limit_s: float,
        root: Path | None = None,
        deletes_in_bulk: bool = False,
    ) -> None:
        self._store = store
        self._patient = patient
        """The same, for uploads in parts: it tries a part again."""
        self._limit_s = limit_s
        self._root = root
        self._deletes_in_bulk = deletes_in_bulk

    @classmethod
    def from_settings(cls, settings: StoreSettings) -> Self:
        """Raises ConfigError."""
        limit_s = settings.connect_timeout_s + settings.request_timeout_s + GRACE_S
        try:
            if settings.scheme == "file":
                root = Path(unquote(urlsplit(settings.url).path))
                local = LocalStore(root, mkdir=True)
                return cls(local, local, limit_s=limit_s, root=root)
            return cls(
                remote(settings, retry_count=0),
                remote(settings, retry_count=PART_RETRY_COUNT),
                limit_s=limit_s,
                deletes_in_bulk=settings.scheme == "s3",
            )
        except BaseError as error:
            raise ConfigError(f"{settings.url}: {reason(error)}") from error
        except OSError as error:
            raise ConfigError(f"{settings.url} cannot be made a store: {error}") from error

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        size = sum(map(len, parts))
        assert size <= CREATE_BYTES_MAX, f"{key} has {size} bytes"
        # To take many parts costs the library more than it costs us to copy them; a few large ones
        # it reads where they lie, and the loop goes on.
        content = list(parts) if size >= len(parts) * LARGE_PART_BYTES else b"".join(parts)
        self._check_root(f"creating {key}")
        put = obstore.put_async(self._store, key, content, mode="create", use_multipart=False)
        try:
            await self._ask(f"creating {key}", put)
        except ObjectMissing as error:
            # A folder went while a file was put into it: nobody knows what is there.
            raise StoreAway(str(error)) from error

    async def create_large(self, key: str, pieces: AsyncIterable[Buffer]) -> None:
        # Each request has its time; how many there are depends on the pieces.
        try:
            await obstore.put_async(
                self._patient, key, pieces, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
            )
        except (BaseError, FileNotFoundError) as error:
            raise translate(error, f"creating {key} in parts") from error

    async def get(self, key: str) -> bytes:
        return await self._ask(f"reading {key}", self._get(key))

    async def _get(self, key: str) -> bytes:
        found = await obstore.get_async(self._store, key)
        size = found.meta["size"]
        content = bytes(await found.bytes_async())
        if len(content) != size:
            raise StoreAway(f"reading {key}: {len(content)} of {size} bytes came")
        return content

    async def get_range(self, key: str, start: int, size: int) -> Buffer:
        assert size > 0, f"{size} bytes of {key}"
        wanted = obstore.get_range_async(self._store, key, start=start, length=size)
        try:
            found = await self._ask(f"reading {key} at byte {start}", wanted)
        except BehindTheEnd:
            return b""
        return memoryview(found)

    async def list(self, folder: str, behind: str = "") -> list[StoredObject]:
        assert folder.endswith("/"), f"{folder} is no folder"
        loop = asyncio.get_running_loop()
        found: list[StoredObject] = []
        try:
            async with asyncio.timeout(self._limit_s) as limit:
                async for page in obstore.list(self._store, folder, offset=behind or None):
                    found += [StoredObject(entry["path"], entry["size"]) for entry in page]
                    limit.reschedule(loop.time() + self._limit_s)
        except (BaseError, FileNotFoundError, TimeoutError) as error:
            raise translate(error, f"listing {folder}") from error
        self._check_root(f"listing {folder}")
        # A folder of files has them in no order.
        return sorted(found)

    async def delete(self, keys: Iterable[str]) -> None:
        named = list(keys)
        if self._deletes_in_bulk:
            for start in range(0, len(named), BULK_DELETE_COUNT):
                page = named[start : start + BULK_DELETE_COUNT]
                deleted = obstore.delete_async(self._store, page)
                await self._ask(f"deleting {page[0]} and {len(page) - 1} more", deleted)
            return
        for start in range(0, len(named), DELETES_AT_ONCE):
            page = named[start : start + DELETES_AT_ONCE]
            done = await asyncio.gather(*map(self._delete_one, page), return_exceptions=True)
            for failure in done:
                if failure is not None:
                    raise failure

    async def _delete_one(self, key: str) -> None:
        with contextlib.suppress(ObjectMissing):
            await self._ask(f"deleting {key}", obstore.delete_async(self._store, key))

    async def _ask(self, doing: str, asked: Awaitable[Result]) -> Result:
        try:
            async with asyncio.timeout(self._limit_s):
                return await asked
        except (BaseError, FileNotFoundError, TimeoutError) as error:
            told = translate(error, doing)
            if isinstance(told, ObjectMissing):
                self._check_root(doing)
            raise told from error

    def _check_root(self, doing: str) -> None:
        """A folder that was removed or unmounted is not an empty one."""
        if self._root is not None and not self._root.is_dir():
            raise StoreRefused(f"{doing}: {self._root} is not there any more")

    async def close(self) -> None:
        """It has no end of its own: connections go with the last who names it."""


def remote(settings: StoreSettings, *, retry_count: int) -> "ObjectStore":
    options: dict[str, Any] = dict(settings.options)
    endpoint = settings.endpoint
    if endpoint is not None:
        options[ENDPOINTS[settings.scheme]] = endpoint
    elif settings.scheme == "s3":
        endpoint = next(filter(None, map(os.environ.get, ENDPOINT_VARIABLES)), None)
    is_plain = (endpoint or "").startswith("http://")
    if settings.scheme == "s3" and not is_plain and not _says_how_to_sign(options):
        # TLS proves the bytes of a request; to hash them once more is most of what it costs.
        options[UNSIGNED] = "true"
    client: ClientConfig = {
        "connect_timeout": timedelta(seconds=settings.connect_timeout_s),
        "timeout": timedelta(seconds=settings.request_timeout_s),
        # Who names such an address means it.
        "allow_http": is_plain,
    }
    client.update(cast("ClientConfig", settings.client_options))
    retries: RetryConfig = {
        "max_retries": retry_count,
        "retry_timeout": timedelta(seconds=settings.retry_s),
    }
    return from_url(settings.url, client_options=client, retry_config=retries, **options)


def _says_how_to_sign(options: Mapping[str, Any]) -> bool:
    names = (UNSIGNED, f"aws_{UNSIGNED}")
    return any(name in options or name.upper() in os.environ for name in names)
