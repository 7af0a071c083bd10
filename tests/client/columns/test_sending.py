"""How the transaction of a table ends when a part of it fails, by a script."""

import asyncio
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from semel.client.cluster.blocking import ClientOptions, Connected
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.metadata import PartitionMetadata, TopicMetadata
from semel.client.columns import sending
from semel.client.columns.sending import Sending
from semel.client.outcome import MustAbort, MustStop, OutcomeUnknown
from semel.client.writing.batch_writer import Delivery
from semel.types import TopicPartition
from semel.world import Clock

TOPIC = "scripted"
ROW_COUNT = 3


class BrokenPart(Exception):
    """No error of ours: a column that cannot be encoded, or an interruption."""


class Session:
    """Notes what is asked of it, and raises what the script says."""

    def __init__(self) -> None:
        self.failures: dict[str, Exception] = {}
        self.is_write_slow = False
        self.asked: list[str] = []
        self.has_begun = threading.Event()

    async def begin(self) -> None:
        self.asked.append("begin")

    async def write(self, _: object) -> list[Delivery]:
        self.asked.append("write")
        self.has_begun.set()
        if "write" in self.failures:
            raise self.failures["write"]
        if self.is_write_slow:
            try:
                await asyncio.Event().wait()
            finally:
                # Answers are waited for, and an abort that does not wait has time to come.
                for _ in range(10_000):
                    await asyncio.sleep(0)
                self.asked.append("write ended")
        return [Delivery(TopicPartition(TOPIC, 0), 0, 1)]

    async def commit(self) -> None:
        self._end("commit")

    async def abort(self) -> None:
        self._end("abort")

    def _end(self, name: str) -> None:
        self.asked.append(name)
        if name in self.failures:
            raise self.failures[name]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    async def known(_: Cluster, name: str) -> TopicMetadata:
        return TopicMetadata(name, b"", False, (PartitionMetadata(0, 1, 0, (1,), (1,)),))

    scripted = Session()
    monkeypatch.setattr(Cluster, "topic_to_write", known)
    monkeypatch.setattr(sending, "TransactionalWriter", lambda *_: scripted)
    # Each row is a part of its own.
    monkeypatch.setattr(sending, "_PART_SIZE", 1)
    return scripted


@pytest.fixture
def connected() -> Iterator[Connected]:
    with Connected(ClientOptions("127.0.0.1:1")) as connected:
        yield connected


def send(connected: Connected, row_count: int, clock: Clock | None = None) -> list[Delivery]:
    table = pa.table({"value": ["x"] * row_count})
    return Sending(connected, TOPIC, transactional_id="id", clock=clock).send(table)


class BrokenClock:
    """Fails the second part while the first one is being written."""

    def __init__(self, has_begun: threading.Event) -> None:
        self._has_begun = has_begun
        self._look_count = 0

    def wall_ms(self) -> int:
        self._look_count += 1
        if self._look_count > 1:
            assert self._has_begun.wait(60)
            raise BrokenPart
        return 0

    def monotonic_ms(self) -> int:
        return 0


def test_all_parts_are_committed_together(connected: Connected, session: Session) -> None:
    assert len(send(connected, ROW_COUNT)) == ROW_COUNT
    assert session.asked == ["begin", *["write"] * ROW_COUNT, "commit"]


def test_a_write_under_way_ends_before_the_abort(connected: Connected, session: Session) -> None:
    session.is_write_slow = True
    with pytest.raises(BrokenPart):
        send(connected, 2, BrokenClock(session.has_begun))
    assert session.asked == ["begin", "write", "write ended", "abort"]


@pytest.mark.parametrize("name", ["write", "commit"])
def test_what_must_be_aborted_is(connected: Connected, session: Session, name: str) -> None:
    session.failures[name] = MustAbort("refused")
    with pytest.raises(MustAbort, match="refused"):
        send(connected, 1)
    assert session.asked[-1] == "abort"


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        ("write", MustStop("fenced")),
        ("commit", MustStop("fenced")),
        ("commit", OutcomeUnknown("no answer")),
    ],
)
def test_what_cannot_be_aborted_is_left(
    connected: Connected, session: Session, name: str, failure: Exception
) -> None:
    session.failures[name] = failure
    with pytest.raises(type(failure), match=str(failure)):
        send(connected, 1)
    assert session.asked[-1] == name


@pytest.mark.parametrize("name", ["write", "commit"])
def test_an_abort_that_fails_is_told_beside_the_reason_for_it(
    connected: Connected, session: Session, name: str
) -> None:
    session.failures = {name: MustAbort("the reason"), "abort": OutcomeUnknown("no answer")}
    with pytest.raises(MustAbort, match="the reason") as caught:
        send(connected, 1)
    assert caught.value.__notes__ == ["and the transaction could not be aborted: no answer"]
