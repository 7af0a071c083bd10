"""A store behind a server in a process of its own, and nodes on it in theirs."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from semel.testing import Broker
from semel.testing.fault_server import CONTROL

_READY = re.compile(r"The fault server is ready on (\S+)\n")
BUCKET = "bucket"
URL = f"s3://{BUCKET}/cluster"
TIMEOUT_S = 60.0


class StoreProcess:
    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    def control(self, **weather: Any) -> dict[str, Any]:
        """Set the weather; what was counted so far."""
        request = urllib.request.Request(
            self.endpoint + CONTROL, json.dumps(weather).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def puts(self) -> int:
        return int(self.control()["counts"].get("PUT", 0))

    def node(
        self, number: int, settings: Mapping[str, object] | None = None, *arguments: str
    ) -> Broker:
        return Broker(
            settings=settings, arguments=("--store", URL, "--node-id", str(number), *arguments)
        )


@contextmanager
def store_process(*arguments: str) -> Iterator[StoreProcess]:
    """With a cluster in it. Its address is in the environment as long as it is there."""
    server = subprocess.Popen(
        [sys.executable, "-m", "semel.testing.fault_server", "--bucket", BUCKET, *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )
    before = dict(os.environ)
    try:
        assert server.stdout is not None
        ready = _READY.fullmatch(server.stdout.readline())
        assert ready is not None
        os.environ.update(
            AWS_ENDPOINT_URL=ready[1],
            AWS_ACCESS_KEY_ID="a",
            AWS_SECRET_ACCESS_KEY="b",
            AWS_REGION="us-east-1",
        )
        create = [sys.executable, "-m", "semel", "cluster", "create", "--store", URL]
        subprocess.run(create, check=True, capture_output=True)
        yield StoreProcess(ready[1])
    finally:
        os.environ.clear()
        os.environ.update(before)
        server.terminate()
        server.communicate()
