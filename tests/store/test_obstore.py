"""What stores say when something is wrong, and what the driver makes of it."""

import asyncio
import builtins
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from semel.errors import ConfigError
from semel.store.in_memory import Bucket, MemoryStore
from semel.store.obstore_driver import remote
from semel.store.obstore_errors import translate
from semel.store.opening import bare_store, open_store
from semel.store.retrying import Retrying
from semel.store.seam import (
    CREATE_BYTES_MAX,
    ObjectExists,
    ObjectMissing,
    Store,
    StoreAway,
    StoreRefused,
)
from semel.store.settings import StoreSettings
from semel.testing.fault_server import Fault, FaultServer
from semel.types import Buffer
from support.seeded_loop import run
from support.stores import faulty, settings_of

PREFIX = "some/where/"
Call = Callable[[Store], Awaitable[object]]


def create(store: Store) -> Awaitable[object]:
    return store.create("a/new", [b"content"])


CALLS: dict[str, tuple[str, Call]] = {
    "create": ("PUT", create),
    "get": ("GET", lambda store: store.get("a/old")),
    "get_range": ("GET", lambda store: store.get_range("a/old", 2, 3)),
    "list": ("LIST", lambda store: store.list("a/")),
    "delete": ("DELETE", lambda store: store.delete(["a/old", "a/older"])),
}
AWAY = (
    Fault.SLOW_DOWN,
    Fault.ERROR_BEFORE,
    Fault.ERROR_AFTER,
    Fault.CUT_BEFORE,
    Fault.CUT_AFTER,
    Fault.HANG_BEFORE,
    Fault.HANG_AFTER,
    Fault.LATE,
)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("fault", AWAY)
def test_what_may_pass_is_store_away(fault: Fault, name: str) -> None:
    verb, call = CALLS[name]

    async def scenario() -> None:
        async with faulty(request_timeout_s=0.2) as (server, store):
            server.bucket.objects[PREFIX + "a/old"] = b"0123456789"
            server.plan(fault, verb)
            with pytest.raises(StoreAway):
                await call(store)
            assert server.counts[verb] == 1, "the library has tried again by itself"

    asyncio.run(scenario())


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("fault", [Fault.FORBIDDEN, Fault.EXPIRED])
def test_credentials_that_do_not_serve_are_a_refusal(fault: Fault, name: str) -> None:
    verb, call = CALLS[name]

    async def scenario() -> None:
        async with faulty() as (server, store):
            server.plan(fault, verb)
            with pytest.raises(StoreRefused, match=r"AccessDenied|ExpiredToken"):
                await call(store)

    asyncio.run(scenario())


@pytest.mark.parametrize("name", CALLS)
def test_a_bucket_that_is_missing_is_a_refusal(name: str) -> None:
    """Its slots would be free for the taking otherwise."""

    async def scenario() -> None:
        async with faulty() as (server, store):
            server.bucket.is_there = False
            with pytest.raises(StoreRefused, match="NoSuchBucket"):
                await CALLS[name][1](store)

    asyncio.run(scenario())


def test_a_page_that_is_not_found_says_nothing_of_an_object() -> None:
    found_by_a_proxy = FileNotFoundError(
        "Object at location a/1 not found: Error performing GET http://proxy/a/1 in 1ms - "
        "Server returned non-2xx status code: 404 Not Found: <html>no such site</html>"
    )
    assert type(translate(found_by_a_proxy, "reading a/1")) is StoreRefused


@pytest.mark.parametrize(("trouble", "said"), [("is_read_only", "403"), ("is_full", "507")])
def test_a_bucket_that_takes_nothing_is_a_refusal_and_can_be_read(trouble: str, said: str) -> None:
    async def scenario() -> None:
        async with faulty() as (server, store):
            await store.create("a/old", [b"content"])
            setattr(server.weather, trouble, True)
            with pytest.raises(StoreRefused, match=f"creating a/new: {said}"):
                await create(store)
            assert await store.get("a/old") == b"content"

    asyncio.run(scenario())


def test_a_create_that_another_disturbed_has_not_lost() -> None:
    """S3 asks to try again, and the library calls it AlreadyExists."""

    async def scenario() -> None:
        async with faulty() as (server, store):
            server.plan(Fault.CONFLICT, "PUT")
            with pytest.raises(StoreAway, match="ConditionalRequestConflict"):
                await create(store)
            await create(store)

    asyncio.run(scenario())


def test_ones_own_write_may_come_back_as_existing() -> None:
    async def scenario() -> None:
        async with faulty() as (server, store):
            server.plan(Fault.TWICE, "PUT")
            with pytest.raises(ObjectExists):
                await create(store)
            assert await store.get("a/new") == b"content"

    asyncio.run(scenario())


def test_a_write_may_land_when_nobody_waits_for_it() -> None:
    async def scenario() -> None:
        async with faulty() as (server, store):
            server.plan(Fault.LATE, "PUT")
            with pytest.raises(StoreAway):
                await create(store)
            with pytest.raises(ObjectMissing):
                await store.get("a/new")
            await server.landed()
            with pytest.raises(ObjectExists):
                await create(store)

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["get", "get_range"])
def test_half_an_answer_is_none(name: str) -> None:
    async def scenario() -> None:
        async with faulty() as (server, store):
            await store.create("a/old", [b"0123456789" * 10_000])
            server.plan(Fault.CUT_IN_BODY, "GET")
            with pytest.raises(StoreAway):
                await CALLS[name][1](store)

    asyncio.run(scenario())


def test_a_store_that_nobody_answers_for_is_away() -> None:
    async def scenario() -> None:
        async with FaultServer() as server:
            settings = settings_of(server, connect_timeout_s=0.5)
        store = bare_store(settings)
        for _, call in CALLS.values():
            with pytest.raises(StoreAway):
                await call(store)

    asyncio.run(scenario())


def test_each_create_is_one_request() -> None:
    async def scenario() -> None:
        async with faulty() as (server, store):
            await store.create("a/1", [bytes(CREATE_BYTES_MAX)])
            assert dict(server.counts) == {"PUT": 1}

    asyncio.run(scenario())


def test_many_keys_are_deleted_in_few_requests() -> None:
    async def scenario() -> None:
        async with faulty() as (server, store):
            keys = [f"a/{number:04}" for number in range(1_500)]
            server.bucket.objects = {PREFIX + key: b"" for key in keys}
            await store.delete(keys)
            assert server.bucket.objects == {}
            assert dict(server.counts) == {"DELETE": 2}

    asyncio.run(scenario())


async def zeros(count: int, fail_at: int = -1) -> AsyncIterator[Buffer]:
    for number in range(count):
        if number == fail_at:
            raise OSError("the disk is gone")
        yield bytes(2**20)


@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.CUT_BEFORE, Fault.CUT_AFTER])
def test_a_part_that_fails_is_sent_again(fault: Fault) -> None:
    async def scenario() -> None:
        async with faulty() as (server, store):

            async def pieces() -> AsyncIterator[Buffer]:
                async for piece in zeros(10):
                    yield piece
                server.plan(fault, "PUT")
                async for piece in zeros(10):
                    yield piece

            await store.create_large("vol/1", pieces())
            assert server.counts[f"PUT {fault.name}"] == 1
            assert await store.get("vol/1") == bytes(20 * 2**20)
            assert server.bucket.uploads == {}

    asyncio.run(scenario())


def test_an_upload_that_broke_off_is_given_up_in_the_store_too() -> None:
    async def scenario() -> None:
        async with faulty() as (server, store):
            with pytest.raises(OSError, match="the disk is gone"):
                await store.create_large("vol/1", zeros(30, fail_at=20))
            assert server.bucket.objects == {}
            assert server.bucket.uploads == {}

    asyncio.run(scenario())


def test_an_upload_to_a_full_bucket_is_refused() -> None:
    async def scenario() -> None:
        async with faulty(retry_s=0.2) as (server, store):
            server.weather.is_full = True
            with pytest.raises(StoreRefused, match="507"):
                await store.create_large("vol/1", zeros(20))

    asyncio.run(scenario())


def test_a_key_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = bare_store(StoreSettings(f"file://{tmp_path}", is_ephemeral=True))
        await store.create("a/1", [b""])
        with pytest.raises(StoreRefused):
            await store.create("a/1/2", [b""])

    asyncio.run(scenario())


def test_a_create_never_says_that_something_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def vanishing(*_: object, **__: object) -> None:
        raise FileNotFoundError("Object at location a/new not found: (os error 2)")

    async def scenario() -> None:
        store = bare_store(StoreSettings(f"file://{tmp_path}", is_ephemeral=True))
        monkeypatch.setattr("obstore.put_async", vanishing)
        with pytest.raises(StoreAway):
            await create(store)

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["create", "get", "get_range", "list"])
def test_a_folder_that_was_taken_away_is_not_an_empty_one(tmp_path: Path, name: str) -> None:
    async def scenario() -> None:
        store = bare_store(StoreSettings(f"file://{tmp_path}/store", is_ephemeral=True))
        await store.create("a/old", [b"content"])
        shutil.rmtree(tmp_path / "store")
        with pytest.raises(StoreRefused, match="is not there any more"):
            await CALLS[name][1](store)
        assert not (tmp_path / "store").exists()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("file:///tmp/x", "never synced.*--ephemeral"),
        ("memory:///", "never synced.*--ephemeral"),
        ("file://x/y", "from the root"),
        ("file:///", "from the root"),
        ("s3:///x", "names no bucket"),
        (
            "https://x/y",
            "begins with one of az://, file://, gs://, memory://, postgresql://, s3://",
        ),
        ("bucket", "begins with one of"),
    ],
)
def test_a_url_that_names_no_lasting_store_is_refused(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        StoreSettings(url)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("s3://bucket/some/where", {"region": "eu-west-1"}),
        ("gs://bucket/some/where", {}),
        ("az://container/some/where", {"account_name": "x", "account_key": "eA=="}),
    ],
)
def test_the_stores_of_three_providers_can_be_named(url: str, options: dict[str, str]) -> None:
    open_store(StoreSettings(url, options=options), Random(0))


@pytest.mark.parametrize(
    ("endpoint", "options", "is_unsigned"),
    [
        (None, {}, True),
        ("https://host:9000", {}, True),
        ("http://host:9000", {}, False),
        (None, {"unsigned_payload": "false"}, False),
        ("http://host:9000", {"unsigned_payload": "true"}, True),
    ],
)
def test_bodies_are_hashed_only_where_no_tls_proves_them(
    endpoint: str | None, options: dict[str, str], is_unsigned: bool
) -> None:
    settings = StoreSettings("s3://bucket", endpoint=endpoint, options=options)
    made: Any = remote(settings, retry_count=0)
    assert (made.config.get("unsigned_payload") == "true") is is_unsigned


@pytest.mark.parametrize("part_bytes", [10, 100_000])
@pytest.mark.parametrize("of", [bytes, memoryview])
def test_parts_small_and_large_are_one_object(
    part_bytes: int, of: Callable[[bytes], Buffer]
) -> None:
    async def scenario() -> None:
        async with faulty() as (server, store):
            parts = [of(bytes([number]) * part_bytes) for number in range(40)]
            await store.create("a/1", parts)
            assert await store.get("a/1") == b"".join(parts)
            assert server.counts["PUT"] == 1

    asyncio.run(scenario())


def test_an_option_that_the_library_does_not_know_is_refused() -> None:
    with pytest.raises(ConfigError, match="s3://bucket"):
        bare_store(StoreSettings("s3://bucket", options={"colour": "blue"}))


def test_credentials_and_address_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with FaultServer() as server:
            monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
            store = bare_store(StoreSettings("s3://bucket"))
            await create(store)
            assert server.bucket.objects == {"a/new": b"content"}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("url", "library", "driver", "extra"),
    [
        ("s3://bucket", "obstore", "obstore_driver", "cluster"),
        ("postgresql:///", "psycopg", "postgresql", "postgresql"),
    ],
)
def test_who_lacks_the_library_is_told_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, url: str, library: str, driver: str, extra: str
) -> None:
    monkeypatch.delitem(sys.modules, f"semel.store.{driver}", raising=False)
    real = builtins.__import__

    def lacking(name: str, *others: Any) -> Any:
        if name == library:
            raise ModuleNotFoundError(f"No module named {library!r}", name=library)
        return real(name, *others)

    monkeypatch.setattr(builtins, "__import__", lacking)
    with pytest.raises(ConfigError, match=rf"pip install '\.\[{extra}\]'"):
        bare_store(StoreSettings(url))


def test_what_can_be_asked_twice_is_asked_again_while_the_store_is_away() -> None:
    async def scenario() -> None:
        async with faulty() as (server, bare):
            store = Retrying(bare, settings_of(server, retry_pause_s=0.001), Random(0))
            await store.create("a/old", [b"0123456789"])
            for verb, call in list(CALLS.values())[1:]:
                server.plan(Fault.SLOW_DOWN, verb, count=3)
                await call(store)
            assert store.retry_count == 12
            server.plan(Fault.CUT_AFTER, "PUT")
            with pytest.raises(StoreAway):
                await create(store)
            assert server.counts["PUT"] == 2

    asyncio.run(scenario())


def test_patience_ends() -> None:
    async def scenario() -> None:
        bucket = Bucket()
        bucket.is_away = True
        settings = StoreSettings("memory:///", is_ephemeral=True, retry_s=30.0)
        store = Retrying(MemoryStore(bucket), settings, Random(0))
        start_s = asyncio.get_running_loop().time()
        with pytest.raises(StoreAway):
            await store.get("a/1")
        assert 20 < asyncio.get_running_loop().time() - start_s < 35

    run(Random(0), scenario())


def test_nothing_else_needs_the_library() -> None:
    program = "import sys, semel.store.opening; sys.exit('obstore' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, env=dict(os.environ))


def test_a_short_process_ends_in_peace(tmp_path: Path) -> None:
    """Of those that did not wait a moment, one in seven was aborted."""
    program = f"""
import asyncio
from semel.store.opening import bare_store
from semel.store.settings import StoreSettings
async def main():
    store = bare_store(StoreSettings("file://{tmp_path}/store", is_ephemeral=True))
    for number in range(20):
        await store.create(f"a/{{number}}", [b"x"])
    await store.delete([f"a/{{number}}" for number in range(20)])
for _ in range(10):
    asyncio.run(main())
"""
    for _ in range(5):
        subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("has_expired", "403 ExpiredToken The provided token has expired: renew the credentials"),
        ("is_read_only", "403 AccessDenied Access Denied: who runs a node must be allowed to"),
        ("is_full", "507 XMinioStorageFull .*: the store is full, and nothing is acknowledged"),
    ],
)
def test_what_its_owner_has_to_do_is_said(trouble: str, said: str) -> None:
    async def scenario() -> None:
        async with faulty() as (server, store):
            setattr(server.weather, trouble, True)
            with pytest.raises(StoreRefused, match=f"creating a/new: {said}"):
                await create(store)

    asyncio.run(scenario())


@pytest.mark.parametrize("status", [401, 403])
def test_a_store_that_refuses_without_a_word_is_told_of_with_where_to_look(status: int) -> None:
    answer = f"Client error with status code: {status} , no body"
    told = translate(builtins.PermissionError(answer), "reading cluster/format")
    assert str(told).startswith(
        f"reading cluster/format: {status}: the store does not say why: look at the credentials"
    )


def test_a_bucket_that_is_missing_is_to_be_made() -> None:
    async def scenario() -> None:
        async with faulty() as (server, store):
            server.bucket.is_there = False
            with pytest.raises(StoreRefused, match=r"NoSuchBucket .*: make the bucket, or name"):
                await create(store)

    asyncio.run(scenario())


def test_where_nobody_answers_is_said_without_the_librarys_words() -> None:
    async def scenario() -> None:
        async with FaultServer() as server:
            settings = settings_of(server, connect_timeout_s=0.5)
        with pytest.raises(StoreAway) as raised:
            await create(bare_store(settings))
        assert str(raised.value) == f"creating a/new: nobody answers at {server.endpoint}"

    asyncio.run(scenario())
