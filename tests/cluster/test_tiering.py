"""A broker on a folder whose old data lies in a store, in a process of its own."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.test_forgetting import create, delete, produce, read_all, until, value
from semel.testing import Broker
from semel.testing.broker import BrokerDidNotStart
from semel.testing.child import Child

READY = re.compile(r"The fault server is ready on .+:(\d+)\n")
URL = "s3://bucket/volumes"
COUNT = 100
SETTINGS = {
    "log.retention.check.interval.ms": 300,
    "journal.segment.bytes": 5 * 2**20,
    "journal.settle.bytes": 5 * 2**20,
}


NODE_SETTINGS = {"cluster.detection.ms": 1_000}


@pytest.fixture
def options() -> Iterator[list[str]]:
    """How the store is reached."""
    server = Child(["-m", "semel.testing.fault_server", "--bucket", "bucket", "--stop-with-stdin"])
    ready = READY.fullmatch(server.line())
    assert ready is not None, server.last_words()
    found = {
        "endpoint": f"http://127.0.0.1:{ready[1]}",
        "access_key_id": "test",
        "secret_access_key": "test",
        "region": "us-east-1",
    }
    yield [part for key, its in found.items() for part in ("--store-option", f"{key}={its}")]
    server.stop()


def segments(folder: Path) -> int:
    return len(list(folder.glob("*.segment")))


def test_old_data_goes_to_the_store_and_comes_from_there(
    tmp_path: Path, options: list[str]
) -> None:
    data = tmp_path / "data"
    arguments = ("--volumes", URL, *options)
    expected = [value("t", number) for number in range(COUNT)]
    with Broker(data=data, settings=SETTINGS, arguments=arguments) as broker:
        create(broker.bootstrap_servers, "t")
        produce(broker.bootstrap_servers, ("t",), COUNT)
        until(lambda: segments(data) <= 2, "what is old is still in the folder")
        assert list(data.glob("*.volume")) == []
        assert read_all(broker.bootstrap_servers, "t", COUNT) == expected
        broker.kill()
        broker.start()
        assert read_all(broker.bootstrap_servers, "t", COUNT) == expected
    with pytest.raises(BrokerDidNotStart, match=f"start it with --volumes {URL}"):
        Broker(data=data, settings=SETTINGS).start()
    foreign = Broker(data=tmp_path / "other", settings=SETTINGS, arguments=arguments)
    with pytest.raises(BrokerDidNotStart, match="has volumes of another folder"):
        foreign.start()
    cached = (*arguments, "--cache", str(tmp_path / "cache"))
    with Broker(data=data, settings=SETTINGS, arguments=cached) as broker:
        assert read_all(broker.bootstrap_servers, "t", COUNT) == expected
        assert any((tmp_path / "cache" / "cache").iterdir())
        delete(broker.bootstrap_servers, "t")


def semel(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "semel", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_a_folder_whose_old_data_lies_in_a_store_becomes_a_cluster_and_a_folder_again(
    tmp_path: Path, options: list[str]
) -> None:
    data, again, store = tmp_path / "data", tmp_path / "again", f"file://{tmp_path}/store"
    expected = [value("t", number) for number in range(COUNT)]
    tiered = ("--volumes", URL, *options)
    with Broker(data=data, settings=SETTINGS, arguments=tiered) as broker:
        create(broker.bootstrap_servers, "t")
        produce(broker.bootstrap_servers, ("t",), COUNT)
        until(lambda: segments(data) <= 2, "what is old is still in the folder")
    into = ("cluster", "import", "--data", data, "--store", store, "--ephemeral")
    refused = semel(*into)
    assert refused.returncode == 2
    assert f"old data of {data} lies in {URL}: say --volumes {URL}" in refused.stderr
    elsewhere = [option.replace("--store", "--volumes") for option in options]
    refused = semel(*into, "--volumes", "s3://bucket/other", *elsewhere)
    assert refused.returncode == 2
    assert f"lies in {URL} and not in s3://bucket/other" in refused.stderr
    assert not [*tmp_path.glob("store/**/*")], "nothing was begun"
    imported = semel(*into, "--volumes", URL, *elsewhere)
    assert imported.returncode == 0, imported.stderr
    node = ("--store", store, "--node-id", "1")
    with Broker(settings=NODE_SETTINGS, arguments=node) as leader:
        assert read_all(leader.bootstrap_servers, "t", COUNT) == expected
    with Broker(data=data, settings=SETTINGS, arguments=tiered) as untouched:
        assert read_all(untouched.bootstrap_servers, "t", COUNT) == expected
    back = semel("cluster", "export", "--store", store, "--data", again, "--ephemeral")
    assert back.returncode == 0, back.stderr
    anew = ("--volumes", "s3://bucket/again", *options)
    with Broker(data=again, settings=SETTINGS, arguments=anew) as broker:
        until(lambda: segments(again) <= 2, "what is old is still in the folder")
        assert read_all(broker.bootstrap_servers, "t", COUNT) == expected


def test_a_folder_that_has_all_its_data_is_taken_over_without_a_store(tmp_path: Path) -> None:
    data, store = tmp_path / "data", tmp_path / "store"
    with Broker(data=data):
        """It was here."""
    into = ("cluster", "import", "--data", data, "--store", f"file://{store}", "--ephemeral")
    refused = semel(*into, "--volumes", URL)
    assert refused.returncode == 2
    assert f"lies in itself, and none in {URL}: leave --volumes out" in refused.stderr
    assert not store.exists(), "nothing was begun"


def test_a_store_that_does_not_last_is_refused(tmp_path: Path) -> None:
    for url in ("file:///tmp/volumes", "postgresql://host/database"):
        with pytest.raises(BrokerDidNotStart, match="volumes lie in a store at one of az://"):
            Broker(data=tmp_path, arguments=("--volumes", url)).start()
