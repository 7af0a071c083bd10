"""Apicurio Registry by the REST interface of Schema Registry: a topic is all that it keeps.

What it serves it holds in memory, and reads it from the start of its topic whenever it starts.
"""

import json
import socket
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from peers.java_program import JavaProgram
from peers.registry import maven_file
from peers.stored_log import eventually

from semel.testing import Broker

REGISTRY = "io.apicurio:apicurio-registry-app:3.0.9:tar.gz:all"
"""The last that runs on Java 17."""
REPLY_S_MAX = 60
FORGETFUL = {
    "journal.segment.bytes": 1_500_000,
    "message.max.bytes": 300_000,
    "journal.settle.bytes": 2**20,
    "log.retention.check.interval.ms": 200,
}
SUBJECTS = [f"orders-{number}-value" for number in range(10)]
FIELD_COUNTS = (1, 400, 800)
"""Of the versions of each schema."""


class Registry:
    """One process of it, and its REST interface."""

    def __init__(self, program: JavaProgram, port: int) -> None:
        self.program = program
        self._address = f"http://127.0.0.1:{port}"

    def wait_until_ready(self) -> None:
        """Until it has read its topic: it answers before, with what it knows by then."""
        look = partial(self._ask, "GET", "/health/ready")
        eventually(look, lambda answer: answer is not None)

    def add(self, subject: str, schema: str) -> int:
        answer = self._call("POST", f"/subjects/{subject}/versions", {"schema": schema})
        return int(answer["id"])

    def delete(self, subject: str) -> None:
        self._call("DELETE", f"/subjects/{subject}")

    def schemas(self) -> dict[str, list[Any]]:
        """Every version of every subject."""
        return {
            subject: [
                self._call("GET", f"/subjects/{subject}/versions/{version}")
                for version in self._call("GET", f"/subjects/{subject}/versions")
            ]
            for subject in sorted(self._call("GET", "/subjects"))
        }

    def _call(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        answer = self._ask(method, f"/apis/ccompat/v7{path}", body)
        assert answer is not None, self.program.output()
        return answer

    def _ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        """What it answers; None while it cannot."""
        request = urllib.request.Request(
            self._address + path,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=REPLY_S_MAX) as reply:
                return json.loads(reply.read())
        except urllib.error.HTTPError as refusal:
            with refusal:
                said = refusal.read().decode()
            if refusal.code != HTTPStatus.SERVICE_UNAVAILABLE:
                raise AssertionError(said) from refusal
        except (urllib.error.URLError, ConnectionError):
            self.program.require_running()
        return None


def schema(field_count: int) -> str:
    fields = [
        {"name": f"field_{number}", "type": "string", "default": "none given"}
        for number in range(field_count)
    ]
    return json.dumps({"type": "record", "name": "order", "fields": fields})


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path / "data", settings=FORGETFUL) as broker:
        yield broker


@pytest.fixture
def registry(broker: Broker, tmp_path: Path) -> Iterator[Registry]:
    with tarfile.open(maven_file(REGISTRY)) as packed:
        packed.extractall(tmp_path / "registry", filter="data")
    (runner,) = (tmp_path / "registry").glob("*-runner.jar")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "apicurio.storage.kind": "kafkasql",
        "apicurio.kafkasql.bootstrap.servers": broker.bootstrap_servers,
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": port,
    }
    properties = [f"-D{name}={value}" for name, value in settings.items()]
    arguments = [*properties, "io.quarkus.runner.GeneratedMain"]
    with JavaProgram([runner], arguments, tmp_path / "process") as program:
        registry = Registry(program, port)
        registry.wait_until_ready()
        yield registry


def test_what_is_registered_outlives_registry_and_broker(
    broker: Broker, registry: Registry
) -> None:
    for field_count in FIELD_COUNTS:
        for subject in SUBJECTS:
            registry.add(subject, schema(field_count))
    registry.delete(SUBJECTS[0])
    registered = registry.schemas()
    assert [len(registered[subject]) for subject in SUBJECTS[1:]] == [3] * 9
    assert sorted(registered) == SUBJECTS[1:]

    registry.program.kill()
    broker.kill()
    broker.restart()
    registry.program.start()
    registry.wait_until_ready()
    assert registry.schemas() == registered
    assert registry.add("new-value", schema(2)) > 0
