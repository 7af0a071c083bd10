"""versitygw, which speaks S3 over a folder, from the Go proxy. It ends with its block."""

import contextlib
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from peers.registry import go_tool

PACKAGE: Final = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
KEY: Final = {"access_key_id": "peers", "secret_access_key": "peers-peers", "region": "us-east-1"}
BUCKET: Final = "bucket"
_READY_S_MAX: Final = 30
_STOP_S_MAX: Final = 30


class Versitygw:
    def __init__(self) -> None:
        self._program = go_tool(PACKAGE)
        self._folder = Path(tempfile.mkdtemp(prefix="semel-peers-versitygw-"))
        self._buckets, self._metadata = self._folder / "buckets", self._folder / "metadata"
        self._metadata.mkdir()
        (self._buckets / BUCKET).mkdir(parents=True)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._port = listener.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """By which whoever speaks S3 finds it."""
        key = {f"AWS_{name.upper()}": value for name, value in KEY.items()}
        return {"AWS_ENDPOINT_URL": self.endpoint, **key}

    def __enter__(self) -> Self:
        command = [str(self._program), "--port", f"127.0.0.1:{self._port}", "--quiet"]
        command += ["--access", KEY["access_key_id"], "--secret", KEY["secret_access_key"]]
        # Not every file system has extended attributes.
        command += ["posix", "--sidecar", str(self._metadata), str(self._buckets)]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        for _ in self._attempts():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port)):
                return self
        raise AssertionError((self._folder / "log").read_text())

    def _attempts(self) -> Iterator[None]:
        assert self._process is not None
        for _ in range(_READY_S_MAX * 10):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.1)
                return
            yield

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(_STOP_S_MAX)
        shutil.rmtree(self._folder)
