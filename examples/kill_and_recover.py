"""Kill the broker again and again under a running producer, and count what was lost: nothing.

    python -m examples.kill_and_recover

An idempotent producer of confluent-kafka sends numbered records without a pause. Meanwhile the
broker is killed with SIGKILL and started again on the same folder and port. At the end everything
is read back and compared with what was sent and what was acknowledged.
"""

import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

from semel.testing import Broker

TOPIC = "ledger"
KILLS = 5
RECORDS_BETWEEN_KILLS = 2_000
QUIET = {"log_level": 0}
"""librdkafka reports every broker that is away; here that is the point."""


class Outcome(NamedTuple):
    sent: int
    acknowledged: int
    read: int
    lost: int
    duplicated: int
    out_of_order: int


class Sender:
    """Sends 0, 1, 2 … until it is told to stop, and counts what the broker has acknowledged."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                **QUIET,
            }
        )
        self.sent = 0
        self.acknowledged: set[int] = set()
        self._grown = threading.Condition()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait_for(self, acknowledged: int) -> None:
        with self._grown:
            self._grown.wait_for(lambda: len(self.acknowledged) >= acknowledged)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._producer.produce(
                TOPIC, str(self.sent).encode(), partition=0, on_delivery=self._delivered
            )
            self.sent += 1
            # No further ahead than a few batches, so that each kill finds some under way.
            while len(self._producer) > RECORDS_BETWEEN_KILLS // 4:
                self._producer.poll(0.01)
        self._producer.flush()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            with self._grown:
                self.acknowledged.add(int(message.value()))
                self._grown.notify_all()


def main(console: Console) -> Outcome:
    with tempfile.TemporaryDirectory() as folder, Broker(data=Path(folder)) as broker:
        sender = Sender(broker.bootstrap_servers)
        try:
            for kill in range(1, KILLS + 1):
                sender.wait_for(kill * RECORDS_BETWEEN_KILLS)
                broker.kill()
                console.print(f"kill -9 after {len(sender.acknowledged)} acknowledged records")
                broker.start()
        finally:
            sender.stop()
        read = list(_read_all(broker.bootstrap_servers))
    outcome = Outcome(
        sent=sender.sent,
        acknowledged=len(sender.acknowledged),
        read=len(read),
        lost=len(sender.acknowledged.difference(read)),
        duplicated=sum(count - 1 for count in Counter(read).values()),
        out_of_order=sum(after < before for before, after in pairwise(read)),
    )
    console.print(_table(outcome))
    return outcome


def _read_all(bootstrap_servers: str) -> Iterator[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "reader", **QUIET})
    partition = TopicPartition(TOPIC, 0, OFFSET_BEGINNING)
    _, end = consumer.get_watermark_offsets(partition, timeout=10)
    consumer.assign([partition])
    offset = -1
    while offset < end - 1:
        for message in consumer.consume(1_000, timeout=1):
            offset = message.offset()
            yield int(message.value())
    consumer.close()


def _table(outcome: Outcome) -> Table:
    table = Table(title=f"after {KILLS} kills")
    table.add_column("records")
    table.add_column("count", justify="right")
    for name, count in outcome._asdict().items():
        is_fault = name in ("lost", "duplicated", "out_of_order")
        style = "" if not is_fault else "bold red" if count else "bold green"
        table.add_row(name.replace("_", " "), str(count), style=style)
    return table


if __name__ == "__main__":
    found = main(Console())
    raise SystemExit(found.lost + found.duplicated + found.out_of_order > 0)
