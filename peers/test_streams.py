"""Kafka Streams, exactly once, with a repartition topic and a store that its changelog restores.

The broker forgets meanwhile: the changelog is compacted and settled, the repartition topic purged.
"""

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from peers.java_program import JavaProgram
from peers.registry import ROOT, jars, java_classes
from peers.stored_log import StoredLog, eventually, size_on_disk, stored

import semel
from semel.testing import Broker
from semel.types import TopicPartition
from support.raw_client import RawClient

PARTITION_COUNT = 2
REPARTITION = "word-count-words-repartition"
CHANGELOG = "word-count-store-changelog"

WORDS = [f"word-{number:03}" for number in range(200)]
WORDS_IN_LINE = 20
LINES_IN_PART = 2_500
PART_COUNT = 4

FORGETFUL = {
    "journal.segment.bytes": 1_500_000,
    "message.max.bytes": 300_000,
    "journal.settle.bytes": 2**20,
    "log.retention.check.interval.ms": 200,
}
POLL_MS = 1_000
SILENT_POLLS_MAX = 240


class Counts:
    """Every count that was committed, as a reader of the topic `counts` is given them."""

    def __init__(self, consumer: semel.Consumer, program: JavaProgram) -> None:
        self._consumer = consumer
        self._program = program
        consumer.assign([TopicPartition("counts", number) for number in range(PARTITION_COUNT)])
        self.of_word: defaultdict[str, list[int]] = defaultdict(list)
        self._seen_count = 0

    def wait_for(self, count: int) -> None:
        silent_polls = 0
        while self._seen_count < count:
            records = self._consumer.poll(POLL_MS)
            silent_polls = 0 if records else silent_polls + 1
            if silent_polls == SILENT_POLLS_MAX:
                raise AssertionError(f"{self._seen_count} of {count}: {self._program.output()}")
            for record in records:
                assert record.key is not None
                assert record.value is not None
                self.of_word[record.key.decode()].append(int(record.value))
            self._seen_count += len(records)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path / "data", settings=FORGETFUL) as broker:
        with RawClient(broker) as client:
            client.create_topic("lines", PARTITION_COUNT)
            client.create_topic("counts", PARTITION_COUNT)
        yield broker


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def word_count(broker: Broker, state: Path, tmp_path: Path) -> Iterator[JavaProgram]:
    project = ROOT / "peers" / "streams"
    library = jars(project)
    classes = java_classes(project / "WordCount.java", library)
    arguments = ["WordCount", broker.bootstrap_servers, str(state)]
    with JavaProgram([classes, f"{library}/*"], arguments, tmp_path / "word-count") as program:
        yield program


def write_part(broker: Broker, random: Random) -> Counter[str]:
    written: Counter[str] = Counter()
    with semel.Producer(broker.bootstrap_servers) as producer:
        for number in range(LINES_IN_PART):
            words = random.choices(WORDS, k=WORDS_IN_LINE)
            written.update(words)
            partition = number % PARTITION_COUNT
            producer.send("lines", " ".join(words).encode(), partition=partition)
    return written


def kill_and_wipe(program: JavaProgram, state: Path) -> None:
    """With nothing left of its store, all of it comes back from the changelog."""
    program.kill()
    shutil.rmtree(state)


def is_mostly_compacted(logs: list[StoredLog]) -> bool:
    return all(log.start == 0 and log.record_count < log.end // 2 for log in logs)


def restored_count(said: str) -> int:
    facts = [line.split() for line in said.splitlines()]
    return sum(int(fact[2]) for fact in facts if fact[0] == "restored")


def test_every_word_is_counted_once_whoever_is_killed(
    broker: Broker, word_count: JavaProgram, state: Path, tmp_path: Path
) -> None:
    random = Random(13)
    part = LINES_IN_PART * WORDS_IN_LINE
    with semel.Consumer(broker.bootstrap_servers, isolation="read_committed") as consumer:
        counts = Counts(consumer, word_count)
        # After each kill there is more to do, so that each falls into the work.
        expected = write_part(broker, random)
        counts.wait_for(part // 2)
        kill_and_wipe(word_count, state)

        expected += write_part(broker, random)
        word_count.start()
        counts.wait_for(part + part // 2)
        broker.kill()
        broker.restart()

        expected += write_part(broker, random)
        counts.wait_for(2 * part + part // 2)
        kill_and_wipe(word_count, state)
        eventually(
            lambda: stored(broker, CHANGELOG, PARTITION_COUNT),
            is_mostly_compacted,
        )
        said_before = word_count.output()

        expected += write_part(broker, random)
        word_count.start()
        counts.wait_for(PART_COUNT * part)
    assert {word: seen[-1] for word, seen in counts.of_word.items()} == expected
    assert all(seen == list(range(1, seen[-1] + 1)) for seen in counts.of_word.values())

    # The last life began with what compaction had left, and lost no count by it.
    said = word_count.output().removeprefix(said_before)
    changelog = stored(broker, CHANGELOG, PARTITION_COUNT)
    assert len(WORDS) <= restored_count(said) < sum(log.end for log in changelog) // 2

    eventually(
        lambda: stored(broker, REPARTITION, PARTITION_COUNT),
        lambda logs: all(log.start > log.end // 2 for log in logs),
    )
    word_count.stop()
    assert word_count.output().endswith("closed true\n")

    eventually(
        lambda: (stored(broker, CHANGELOG, PARTITION_COUNT), size_on_disk(broker, CHANGELOG)),
        lambda seen: (
            is_mostly_compacted(seen[0]) and sum(log.batch_bytes for log in seen[0]) == seen[1]
        ),
    )
    assert list((tmp_path / "data").rglob("*.volume"))

    broker.kill()
    broker.restart()
    rows = semel.read("counts", bootstrap_servers=broker.bootstrap_servers).to_pylist()
    assert Counter(row["key"].decode() for row in rows) == expected
