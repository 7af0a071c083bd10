"""A transaction is one durable write, whatever it spans: by our count and by the kernel's."""

import re
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.testing import Broker
from support.kafka_codes import NONE
from support.raw_client import METRICS, RawClient
from support.transactional_wire import TV1, Versions, WireProducer

PARTITION_COUNT = 16
TRANSACTION_COUNT = 40
NEVER_IDLE = {"log.flush.interval.ms": 60_000}


@pytest.fixture
def durable_broker(tmp_path: Path) -> Iterator[Broker]:
    """It syncs when someone waits for it, and not because time passes."""
    with Broker(data=tmp_path / "data", settings=NEVER_IDLE, arguments=METRICS) as broker:
        yield broker


def syncs_by_reason(broker: Broker) -> dict[str, int]:
    address = re.search(r"http://[0-9.:]+/metrics", broker.complaints())
    assert address is not None
    with urllib.request.urlopen(address[0], timeout=60) as page:
        text = page.read().decode()
    found = re.findall(r'^semel_journal_syncs_total\{reason="(.+)"\} (\S+)$', text, re.MULTILINE)
    return {reason: int(float(count)) for reason, count in found}


def run_transactions(producer: WireProducer, count: int, partition_count: int) -> None:
    for _ in range(count):
        if producer.versions is TV1:
            assert set(producer.add("t", *range(partition_count))) == {NONE}
            assert producer.add_offsets("g") == NONE
        for partition in range(partition_count):
            assert producer.produce("t", b"v", partition=partition).error_code == NONE
        assert producer.commit_offsets("g", {("t", 0): 1}) == [NONE]
        assert producer.commit() == NONE


@pytest.mark.parametrize("partition_count", [1, PARTITION_COUNT])
def test_sequential_transactions_cost_one_sync_each(
    durable_broker: Broker, versions: Versions, partition_count: int
) -> None:
    with RawClient(durable_broker) as client:
        client.create_topic("t", PARTITION_COUNT)
        client.create_group_topic()
    with WireProducer(durable_broker, "a", versions) as producer:
        producer.init()
        before = syncs_by_reason(durable_broker)
        run_transactions(producer, TRANSACTION_COUNT, partition_count)
        after = syncs_by_reason(durable_broker)
    more = {reason: count - before.get(reason, 0) for reason, count in after.items()}
    assert sum(more.values()) == TRANSACTION_COUNT, more


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace, which counts, is missing")
def test_the_kernel_counts_one_sync_for_each_transaction(
    durable_broker: Broker, versions: Versions, tmp_path: Path
) -> None:
    with RawClient(durable_broker) as client:
        client.create_topic("t", PARTITION_COUNT)
        client.create_group_topic()
    trace = tmp_path / "trace"
    with WireProducer(durable_broker, "a", versions) as producer:
        producer.init()
        calls = "trace=fsync,fdatasync,sync_file_range,msync"
        command = ["strace", "-f", "-e", calls, "-o", str(trace)]
        tracer = subprocess.Popen(
            [*command, "-p", str(durable_broker.process_id)], stderr=subprocess.PIPE, text=True
        )
        try:
            assert tracer.stderr is not None
            said = tracer.stderr.readline()
            if "attached" not in said:
                pytest.skip(f"strace may not look at the broker: {said.strip()}")
            run_transactions(producer, TRANSACTION_COUNT, PARTITION_COUNT)
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.communicate()
    calls_seen = re.findall(r"\b(fsync|fdatasync|sync_file_range|msync)\(", trace.read_text())
    assert len(calls_seen) == TRANSACTION_COUNT
