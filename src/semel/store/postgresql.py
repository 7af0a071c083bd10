"""A store in a table of PostgreSQL: a commit there takes milliseconds, so it suits slots.

One row is one object; a key is created by an insert that does nothing where there is a row.

With a synchronous standby one thing is not as it seems: a commit whose wait for it is broken off
(a cancel, a restart) is there for every reader, and may be on one machine alone. So who was left
in doubt by a create, and then finds the row, commits something behind it before it believes that:
the log of the database is in order, so that what came before is on the standby too.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from semel.errors import ConfigError
from semel.store.seam import (
    CREATE_BYTES_MAX,
    ObjectExists,
    ObjectMissing,
    StoreAway,
    StoredObject,
    StoreError,
    StoreRefused,
)
from semel.store.settings import StoreSettings
from semel.types import Buffer

CONNECTION_COUNT_MAX: Final = 8
LARGE_BYTES_MAX: Final = 64 * 2**20
LOCK: Final = 0x53454D454C
"""Held by who makes the table, as two at once disturb each other."""

# Compared byte by byte, and never compressed: ranges are cut from where they lie.
MAKE_TABLE: Final = """
    create table if not exists semel_objects (
        key text collate "C" primary key, value bytea not null);
    alter table semel_objects alter column value set storage external
"""
BARRIER: Final = """
    insert into semel_objects values ('', '') on conflict (key) do update set value = ''
"""
LASTING_CLASSES: Final = frozenset({"28", "3D", "3F", "42", "22", "54"})
"""Of SQLSTATE: who one is, what there is, what one may."""
LASTING_STATES: Final = frozenset({"53100", "25006"})
"""A full disk, a database that is read only."""
LASTING_WORDS: Final = (
    "authentication failed", "does not exist", "no pg_hba.conf entry", "no password supplied",
)  # fmt: skip
"""The library has no SQLSTATE for a connection that was not made."""
NOT_SYNCHRONOUS: Final = frozenset({"off", "local"})


class PostgresStore:
    def __init__(self, conninfo: str, *, limit_s: float, is_ephemeral: bool) -> None:
        self._conninfo = conninfo
        self._limit_s = limit_s
        self._is_ephemeral = is_ephemeral
        self._free = asyncio.Semaphore(CONNECTION_COUNT_MAX)
        self._idle: list[Connection] = []
        self._doubts = 0
        """Creates of which it is not known whether they were done."""
        self._resolved = 0
        """How many of these lie before a commit that was heard of."""

    @classmethod
    def from_settings(cls, settings: StoreSettings) -> "PostgresStore":
        """Raises ConfigError."""
        try:
            named = conninfo_to_dict(settings.url)
        except psycopg.Error as error:
            # Without the URL, which may have a password.
            raise ConfigError(f"the URL of the PostgreSQL store: {error}") from None
        usual = {
            "connect_timeout": max(2, round(settings.connect_timeout_s)),
            "tcp_user_timeout": round(settings.request_timeout_s * 1000),
            # Of several hosts the one that takes writes, also after a failover.
            "target_session_attrs": "read-write",
            "application_name": "semel",
        }
        return cls(
            make_conninfo(**(usual | named)),
            limit_s=settings.request_timeout_s,
            is_ephemeral=settings.is_ephemeral,
        )

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        content = b"".join(parts)
        assert len(content) <= CREATE_BYTES_MAX, f"{key} has {len(content)} bytes"
        await self._create(key, content)

    async def create_large(self, key: str, pieces: AsyncIterable[Buffer]) -> None:
        content = bytearray()
        async for piece in pieces:
            content += piece
            if len(content) > LARGE_BYTES_MAX:
                raise StoreRefused(
                    f"{key} has more than {LARGE_BYTES_MAX} bytes: PostgreSQL is for slots, "
                    f"what is large belongs into a bucket"
                )
        await self._create(key, bytes(content))

    async def _create(self, key: str, content: bytes) -> None:
        try:
            async with self._connection(f"creating {key}") as connection:
                done = await connection.execute(
                    "insert into semel_objects values (%s, %b) on conflict do nothing",
                    (key, content),
                )
        except (StoreAway, asyncio.CancelledError):
            self._doubts += 1
            raise
        if done.rowcount == 0:
            raise ObjectExists(f"there is a row for {key}")

    async def get(self, key: str) -> bytes:
        return await self._read(key, "value", ())

    async def get_range(self, key: str, start: int, size: int) -> Buffer:
        assert size > 0, f"{size} bytes of {key}"
        return await self._read(key, "substring(value from %s for %s)", (start + 1, size))

    async def _read(self, key: str, what: str, arguments: tuple[int, ...]) -> bytes:
        async with self._connection(f"reading {key}") as connection:
            doubts = self._doubts
            found = await connection.execute(
                f"select {what} from semel_objects where key = %s", (*arguments, key)
            )
            row = await found.fetchone()
            if row is None:
                raise ObjectMissing(f"there is no row for {key}")
            if self._resolved < doubts:
                await connection.execute(BARRIER)
                self._resolved = max(self._resolved, doubts)
            return bytes(row[0])

    async def list(self, folder: str, behind: str = "") -> list[StoredObject]:
        assert folder.endswith("/"), f"{folder} is no folder"
        async with self._connection(f"listing {folder}") as connection:
            found = await connection.execute(
                "select key, octet_length(value) from semel_objects "
                "where key > %s and key < %s order by key",
                (max(folder, behind), folder[:-1] + chr(ord("/") + 1)),
            )
            return [StoredObject(*row) for row in await found.fetchall()]

    async def delete(self, keys: Iterable[str]) -> None:
        named = list(keys)
        async with self._connection(f"deleting {len(named)} keys") as connection:
            await connection.execute("delete from semel_objects where key = any(%s)", (named,))

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()

    @asynccontextmanager
    async def _connection(self, doing: str) -> "AsyncIterator[Connection]":
        """One that nobody else has. What goes wrong with it is said as the seam says it."""
        async with self._free:
            connection: Connection | None = None
            is_whole = False
            try:
                async with asyncio.timeout(self._limit_s):
                    connection = self._idle.pop() if self._idle else await self._connect()
                    yield connection
                is_whole = True
            except ObjectMissing:
                is_whole = True
                raise
            except TimeoutError as error:
                raise StoreAway(f"{doing}: no answer in time") from error
            except psycopg.Error as error:
                raise translate(error, doing) from error
            finally:
                if connection is not None and is_whole and not connection.is_in_doubt:
                    self._idle.append(connection)
                elif connection is not None:
                    await connection.close()
            if connection.is_in_doubt:
                raise StoreAway(f"{doing}: the wait for the standby was broken off")

    async def _connect(self) -> "Connection":
        opened = await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True)
        connection = Connection(opened)
        try:
            await self._prepare(connection)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _prepare(self, connection: "Connection") -> None:
        asked = await connection.execute(
            "select current_setting('synchronous_commit'), current_setting('fsync'), "
            "to_regclass('semel_objects') is not null"
        )
        row = await asked.fetchone()
        assert row is not None
        synchronous_commit, fsync, is_there = row
        if fsync == "off" and not self._is_ephemeral:
            raise StoreRefused(
                "this PostgreSQL runs with fsync = off: a power loss takes what was acknowledged"
            )
        if synchronous_commit in NOT_SYNCHRONOUS:
            await connection.execute("set synchronous_commit = on")
        if not is_there:
            await connection.execute(f"begin; select pg_advisory_xact_lock({LOCK})")
            await connection.execute(f"{MAKE_TABLE}; commit")


class Connection:
    """One to the database, which hears what the server says beside its answers."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened
        self.is_in_doubt = False
        """Something was committed here that may not be on the standby."""
        opened.add_notice_handler(self._hear)

    async def execute(self, query: str, arguments: tuple[Any, ...] | None = None) -> Any:
        return await self._opened.execute(query, arguments)

    async def close(self) -> None:
        await self._opened.close()

    def _hear(self, notice: Any) -> None:
        # There is no code for it. No other statement here gives a warning.
        if notice.severity_nonlocalized == "WARNING":
            self.is_in_doubt = True


def translate(error: psycopg.Error, doing: str) -> StoreError:
    said = f"{doing}: {' '.join(str(error).split())}"
    state = error.sqlstate
    if state is None:
        lasts = any(words in said for words in LASTING_WORDS)
    else:
        lasts = state[:2] in LASTING_CLASSES or state in LASTING_STATES
    return StoreRefused(said) if lasts else StoreAway(said)
