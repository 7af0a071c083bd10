"""The producer while brokers are killed and paused, and while the producer itself is killed."""

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

import semel
from client.producing import counting_app
from semel.client.producing.blocking import BlockingSent
from semel.testing import Broker
from support.stored import group_offsets, numbers

PARTITION_COUNT = 3
SETTINGS = {"num.partitions": PARTITION_COUNT}


def test_records_are_stored_once_and_in_order_over_kills_and_pauses(tmp_path: Path) -> None:
    with (
        Broker(data=tmp_path / "data", settings=SETTINGS) as broker,
        semel.Producer(
            broker.bootstrap_servers,
            linger_ms=0,
            batch_size_max=500,
            request_timeout_ms=200,
            delivery_timeout_ms=100_000,
        ) as producer,
    ):
        is_over = threading.Event()
        sent: list[tuple[int, int, BlockingSent]] = []

        def send() -> None:
            number = 0
            while not is_over.is_set():
                number += 1
                sent.extend(
                    (partition, number, producer.send("t", str(number), partition=partition))
                    for partition in range(PARTITION_COUNT)
                )
                if number % 50 == 0:
                    sent[-1][2].result(100)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            for turn in range(5):
                _wait_for_more(sent)
                if turn % 2:
                    broker.pause()
                    # Longer than a request may take, so that it is sent again while it waits.
                    is_over.wait(0.5)
                    broker.resume()
                else:
                    broker.kill()
                    broker.start()
            _wait_for_more(sent)
        finally:
            is_over.set()
            sender.join()
        producer.flush()
        found = numbers(broker, "t")
    for partition in range(PARTITION_COUNT):
        expected = [number for place, number, _ in sent if place == partition]
        assert found[partition] == expected
    for partition, number, handed_over in sent:
        offset = handed_over.result(0).offset
        # The broker may have forgotten the place of a batch whose answer was lost.
        assert offset == -1 or found[partition][offset] == number


def _wait_for_more(sent: Sequence[object]) -> None:
    """Until the sender has gone on for a while, of which it waits for each result."""
    goal = len(sent) + 400
    pause = threading.Event()
    while len(sent) < goal:
        pause.wait(0.01)


@pytest.mark.parametrize("seed", range(2))
def test_an_application_counts_without_gap_or_repeat_over_kills_of_it_and_the_broker(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    enough = 90
    with Broker(data=tmp_path / "data", settings={"num.partitions": 1}) as broker:
        heard = 0
        while heard < enough:
            heard = max(heard, _life(broker, enough, random.randint(1, 15), random))
        found = numbers(broker, "t", is_committed_only=True)
        (offset,) = group_offsets(broker, "counting").values()
    assert found == [list(range(offset))]
    assert offset >= heard


def _life(broker: Broker, enough: int, transaction_count: int, random: Random) -> int:
    """One process, killed after so many transactions; the last number that it has committed."""
    command = [sys.executable, str(Path(counting_app.__file__)), broker.bootstrap_servers]
    process = subprocess.Popen(
        [*command, "t", "counting", str(enough)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    heard = 0
    try:
        for line, _ in zip(process.stdout, range(transaction_count), strict=False):
            heard = int(line)
            if random.random() < 0.1:
                broker.kill()
                broker.start()
    finally:
        process.kill()
        process.communicate()
    return heard
