"""Load with librdkafka through confluent-kafka: a program that `clients.py` starts.

It does what Load.java does, call by call and word by word: a line says what to do, "ready" is the
reply when all is connected, and "go" starts the clock.
"""

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

PATIENCE_S = 60
_BETWEEN_LOOKS = 100
"""Records that are sent before it looks at the clock again."""

Words = dict[str, str]


class Start:
    """Said to be ready, and told to go."""

    def __init__(self) -> None:
        say("ready")
        assert sys.stdin.readline() == "go\n", "nobody waits for it"
        self.at = time.perf_counter()
        self._cpu = time.process_time()

    def spent(self) -> str:
        seconds = time.perf_counter() - self.at
        return f"seconds={seconds:.6f} cpu_s={time.process_time() - self._cpu:.3f}"


def produce(words: Words) -> str:
    # Some of `producers` are in other processes, as Python would not run them side by side.
    assert words["producers"] == "1"
    most = int(words["records_max"])
    topic, value = words["topic"], bytes(int(words["record_size"]))
    producer = _producer(words)
    _send_and_wait(producer, topic, value)
    start = Start()
    ends = start.at + float(words["seconds"])
    sent = 0
    while sent < most and time.perf_counter() < ends:
        for _ in range(min(_BETWEEN_LOOKS, most - sent)):
            while True:
                try:
                    producer.produce(topic, value)
                except BufferError:
                    producer.poll(0.001)
                else:
                    break
            sent += 1
    # What could not be delivered would be missing in the topic, where the records are counted.
    assert producer.flush(PATIENCE_S) == 0, "not all were delivered"
    return f"records={sent} {start.spent()}"


def send_one(words: Words) -> str:
    topic, value = words["topic"], bytes(int(words["record_size"]))
    producer = _producer(words, {"linger.ms": 0})
    _send_and_wait(producer, topic, value)
    start = Start()
    ends = start.at + float(words["seconds"])
    taken: list[float] = []
    before = time.perf_counter()
    while before < ends:
        _send_and_wait(producer, topic, value)
        now = time.perf_counter()
        taken.append(now - before)
        before = now
    return f"{start.spent()} {_in_ms(taken)}"


def transactions(words: Words) -> str:
    names = [f"{words['name']}{each}" for each in range(int(words["producers"]))]
    taken: list[float] = []

    def prepared(name: str) -> Producer:
        producer = _producer(words, {"transactional.id": name})
        producer.init_transactions()
        transact(producer)
        return producer

    def transact(producer: Producer) -> None:
        producer.begin_transaction()
        for partition in range(int(words["partitions"])):
            producer.produce(words["topic"], value, partition=partition)
        producer.commit_transaction()

    def run(producer: Producer) -> None:
        before = time.perf_counter()
        while before < ends:
            transact(producer)
            now = time.perf_counter()
            taken.append(now - before)
            before = now

    value = bytes(int(words["record_size"]))
    with ThreadPoolExecutor(len(names)) as threads:
        producers = list(threads.map(prepared, names))
        start = Start()
        ends = start.at + float(words["seconds"])
        list(threads.map(run, producers))
        return f"{start.spent()} {_in_ms(taken)}"


def consume(words: Words) -> str:
    topic, wanted = words["topic"], int(words["records"])
    settings = {"bootstrap.servers": words["servers"], "group.id": "load"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    try:
        places = [
            TopicPartition(topic, each, OFFSET_BEGINNING)
            for each in range(int(words["partitions"]))
        ]
        consumer.get_watermark_offsets(places[0], PATIENCE_S)
        start = Start()
        consumer.assign(places)
        ends = start.at + PATIENCE_S
        records = 0
        while records < wanted and time.perf_counter() < ends:
            records += len(consumer.consume(10_000, 0.05))
        return f"records={records} {start.spent()}"
    finally:
        consumer.close()


CALLS: dict[str, Callable[[Words], str]] = {
    "produce": produce,
    "send_one": send_one,
    "transactions": transactions,
    "consume": consume,
}


def _producer(words: Words, more: dict[str, Any] | None = None) -> Producer:
    # What passes while a new cluster makes its own topics is not worth a word.
    settings = {"bootstrap.servers": words["servers"], "acks": "all", "log_level": 3}
    return Producer({**settings, **(more or {})})


def _send_and_wait(producer: Producer, topic: str, value: bytes) -> None:
    answers: list[object] = []
    producer.produce(topic, value, on_delivery=lambda error, _: answers.append(error))
    while not answers:
        producer.poll(1)
    assert answers == [None], answers


def _in_ms(taken: Sequence[float]) -> str:
    return "ms=" + ",".join(f"{each * 1000:.4f}" for each in taken)


def say(line: str) -> None:
    print(line, flush=True)


def main() -> None:
    for line in sys.stdin:
        call, *rest = line.split()
        words = dict(word.split("=", 1) for word in rest)
        try:
            said = CALLS[call](words)
        except Exception as error:  # noqa: BLE001 - it is told to who asked.
            said = f"error {error!r}"
        say(said.replace("\n", " "))


if __name__ == "__main__":
    main()
