"""The driver's transaction against a broker: what is written once, skipped, and refused."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from semel.client.cluster.blocking import Connected, shared
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.group_offsets import group_offsets
from semel.client.columns.encode import encode, rows_from
from semel.client.connecting import connection
from semel.client.outcome import MustAbort, OutcomeUnknown
from semel.client.writing.transactional_writer import TransactionalWriter
from semel.errors import CoordinatorNotAvailable
from semel.spark import committing
from semel.spark.committing import BatchTransaction, Fenced, TimedOut, commit_batch
from semel.spark.marker import (
    NO_QUERY,
    BatchBehind,
    BatchMarker,
    SharedTransactionalId,
    TwoSinks,
    Verdict,
)
from semel.spark.marker_home import find_marker
from semel.spark.sink_settings import SinkSettings, sink_options, sink_settings
from semel.testing import Broker
from semel.types import TopicPartition
from spark.outlived import delay, timed_out
from support import topics

MARKERS = TopicPartition("semel-markers", 0)
FIRST_RUN, SECOND_RUN, THIRD_RUN = "run-1", "run-2", "run-3"


@pytest.fixture
def topic(semel_broker: Broker, request: pytest.FixtureRequest) -> str:
    name = topics.name_for(request)
    topics.create(semel_broker.bootstrap_servers, name, 2)
    return name


@pytest.fixture(autouse=True)
def fresh_process() -> Iterator[None]:
    yield
    forget_everything()


def forget_everything() -> None:
    """As a process that has just started."""
    committing._known.clear()


class Sink:
    def __init__(self, broker: Broker, topic: str, **options: str) -> None:
        named = {name.replace("__", "."): value for name, value in options.items()}
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic, **named}
        self.settings: SinkSettings = sink_settings(sink_options(given))
        self.connected: Connected = shared(self.settings.client)
        self.servers = broker.bootstrap_servers
        self.topic = topic

    def write(self, number: int, values: Sequence[bytes], **about: Any) -> Verdict:
        return self.connected.run(self.commit(number, values, **about))

    async def commit(
        self,
        number: int,
        values: Sequence[bytes],
        *,
        query: str = "q",
        run: str = FIRST_RUN,
        consumed: dict[TopicPartition, int] | None = None,
    ) -> Verdict:
        rows = rows_from(None, pa.array(values, pa.binary()), now_ms=1)
        partitions = pa.array([index % 2 for index in range(len(values))], pa.int32()).to_numpy()
        encoded = [
            (TopicPartition(self.topic, batch.partition), batch.content)
            for batch in encode(rows, partitions)
        ]
        return await commit_batch(
            self.connected.cluster,
            self.settings,
            self.settings.transactional_id or f"id-{self.topic}",
            BatchMarker(query, number, run),
            encoded,
            consumed,
        )

    def values(self) -> list[bytes]:
        return topics.values(self.servers, self.topic)

    def offsets_of(self, group: str) -> dict[TopicPartition, int]:
        return self._found(group, [TopicPartition(self.topic, number) for number in (0, 1)])

    def markers_of(self, group: str) -> dict[TopicPartition, int]:
        return self._found(group, [MARKERS, TopicPartition(self.topic, 0)])

    def _found(self, group: str, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        # Kafka waits for pending ones of partitions that are named, and leaves out all others.
        found = self.connected.run(group_offsets(self.connected.cluster, group, places))
        return {place: at.offset for place, at in found.items()}


def test_batches_of_a_run_are_all_there(semel_broker: Broker, topic: str) -> None:
    sink = Sink(semel_broker, topic)
    for number in range(4):
        assert sink.write(number, [b"%d" % number]) is Verdict.WRITE
    assert sink.values() == [b"0", b"1", b"2", b"3"]
    assert sink.markers_of(f"semel-id-{topic}") == {MARKERS: 4}


def test_a_batch_that_is_run_again_is_skipped(semel_broker: Broker, topic: str) -> None:
    sink = Sink(semel_broker, topic)
    sink.write(0, [b"a", b"b"])
    forget_everything()
    assert sink.write(0, [b"a", b"b"], run=SECOND_RUN) is Verdict.SKIP
    assert sink.write(1, [b"c"], run=SECOND_RUN) is Verdict.WRITE
    assert sink.values() == [b"a", b"b", b"c"]


def test_without_the_check_a_replay_is_doubled(semel_broker: Broker, topic: str) -> None:
    sink = Sink(semel_broker, topic, delivery="at-least-once")
    sink.write(0, [b"a"])
    forget_everything()
    sink.write(0, [b"a"], run=SECOND_RUN)
    assert sink.values() == [b"a", b"a"]


def test_an_empty_batch_still_moves_the_marker(semel_broker: Broker, topic: str) -> None:
    sink = Sink(semel_broker, topic)
    assert sink.write(0, []) is Verdict.WRITE
    assert sink.markers_of(f"semel-id-{topic}") == {MARKERS: 1}
    assert sink.values() == []


def test_what_a_dead_driver_left_open_is_rolled_back(semel_broker: Broker, topic: str) -> None:
    with topics.transaction(semel_broker.bootstrap_servers, f"id-{topic}") as dead:
        topics.fill_transaction(dead, topic, [b"half"])
    sink = Sink(semel_broker, topic)
    sink.write(0, [b"whole"])
    assert sink.values() == [b"whole"]


def test_a_zombie_driver_is_fenced_and_told_so(semel_broker: Broker, topic: str) -> None:
    zombie = Sink(semel_broker, topic)
    zombie.write(0, [b"a"])
    left = dict(committing._known)
    forget_everything()
    living = Sink(semel_broker, topic)
    # It has taken the id over and not come to a batch of its own.
    assert living.write(0, [b"a"], run=SECOND_RUN) is Verdict.SKIP
    committing._known.update(left)
    with pytest.raises(Fenced, match="another driver"):
        zombie.write(1, [b"zombie"])
    forget_everything()
    assert living.write(1, [b"b"], run=SECOND_RUN) is Verdict.WRITE
    assert living.values() == [b"a", b"b"]


def test_a_zombie_does_not_fence_the_living_driver(semel_broker: Broker, topic: str) -> None:
    sink = Sink(semel_broker, topic)
    sink.write(0, [b"a"])
    zombie_knows = dict(committing._known)
    forget_everything()
    for number, value in ((1, b"b"), (2, b"c")):
        sink.write(number, [value], run=SECOND_RUN)
    living_knows = dict(committing._known)
    committing._known.update(zombie_knows)
    with pytest.raises(BatchBehind):
        sink.write(1, [b"zombie"], run=FIRST_RUN)
    committing._known.update(living_knows)
    assert sink.write(3, [b"d"], run=SECOND_RUN) is Verdict.WRITE
    assert sink.values() == [b"a", b"b", b"c", b"d"]


@pytest.fixture(params=["TV1", "TV2"])
def dialect(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """TV1 is what is spoken with brokers before 4.0."""
    if request.param == "TV1":
        monkeypatch.setattr(connection, "_TRANSACTION_VERSION", "of another kind")
    return str(request.param)


@pytest.mark.parametrize("step", ["write", "send_offsets", "commit"])
def test_a_batch_that_outlives_its_transaction_is_written_again_in_the_same_run(
    semel_broker: Broker,
    topic: str,
    dialect: str,
    step: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    options = {"kafka__transaction__timeout__ms": "500", "kafka__client__id": dialect}
    sink = Sink(semel_broker, topic, **options)
    sink.write(0, [b"a", b"b"])
    delay(monkeypatch, step, timed_out)
    with caplog.at_level(logging.WARNING):
        assert sink.write(1, [b"c", b"d"]) is Verdict.WRITE
    assert "open for longer than kafka.transaction.timeout.ms (500)" in caplog.text
    assert sink.write(2, [b"e", b"f"]) is Verdict.WRITE
    assert sink.values() == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_a_batch_that_outlives_every_transaction_is_told_of_the_timeout(
    semel_broker: Broker, topic: str, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"kafka__transaction__timeout__ms": "500", "kafka__client__id": dialect}
    sink = Sink(semel_broker, topic, **options)
    with monkeypatch.context() as patch:
        delay(patch, "commit", timed_out, times=99)
        with pytest.raises(TimedOut, match=r"raise kafka\.transaction\.timeout\.ms"):
            sink.write(0, [b"a"])
    assert sink.values() == []
    assert sink.write(0, [b"a"], run=SECOND_RUN) is Verdict.WRITE
    assert sink.values() == [b"a"]


@pytest.mark.parametrize("step", ["write", "send_offsets", "commit"])
def test_a_driver_that_another_one_takes_over_from_in_mid_batch_is_told_so_and_leaves_it_alone(
    semel_broker: Broker,
    topic: str,
    dialect: str,
    step: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = Sink(semel_broker, topic, kafka__client__id=dialect)
    sink.write(0, [b"a", b"b"])
    others: list[TransactionalWriter] = []

    async def taken_over(session: TransactionalWriter) -> None:
        others.append(TransactionalWriter(session._cluster, session.transactional_id))
        await others[0].initialise()

    delay(monkeypatch, step, taken_over)
    with pytest.raises(Fenced, match="another driver"):
        sink.write(1, [b"zombie", b"zombie"])
    monkeypatch.undo()

    async def go_on() -> None:
        await others[0].begin()
        await others[0].commit()

    sink.connected.run(go_on())
    assert sink.values() == [b"a", b"b"]


def test_a_driver_that_slept_while_another_one_wrote_its_batch_is_told_so_and_leaves_it_alone(
    semel_broker: Broker, topic: str, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"kafka__transaction__timeout__ms": "500", "kafka__client__id": dialect}
    sink = Sink(semel_broker, topic, **options)
    sink.write(0, [b"a"])
    living: dict[Any, Any] = {}

    async def taken_over(session: TransactionalWriter) -> None:
        await timed_out(session)
        zombie_knows = dict(committing._known)
        forget_everything()
        assert await sink.commit(1, [b"b"], run=SECOND_RUN) is Verdict.WRITE
        living.update(committing._known)
        committing._known.update(zombie_knows)

    delay(monkeypatch, "commit", taken_over)
    with pytest.raises(Fenced, match="another driver"):
        sink.write(1, [b"b"])
    committing._known.update(living)
    assert sink.write(2, [b"c"], run=SECOND_RUN) is Verdict.WRITE
    assert sink.values() == [b"a", b"b", b"c"]


def test_a_broker_that_is_frozen_past_the_timeout_does_not_matter(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(data=tmp_path) as broker:
        topics.create(broker.bootstrap_servers, "t", 2)
        sink = Sink(broker, "t", kafka__transaction__timeout__ms="500")
        sink.write(0, [b"a"])

        async def frozen(session: TransactionalWriter) -> None:
            broker.pause()
            await asyncio.sleep(1)
            broker.resume()

        delay(monkeypatch, "commit", frozen)
        assert sink.write(1, [b"b"]) is Verdict.WRITE
        assert sink.write(2, [b"c"]) is Verdict.WRITE
        assert sink.values() == [b"a", b"b", b"c"]


def test_a_commit_that_nobody_answers_is_looked_up(
    semel_broker: Broker, topic: str, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(semel_broker, topic, kafka__client__id=dialect)
    original = TransactionalWriter.commit
    left = iter([True, False])

    async def lost(session: TransactionalWriter) -> None:
        """The first is not done, the second is."""
        if (is_lost := next(left, None)) is not None:
            if not is_lost:
                await original(session)
            raise OutcomeUnknown("nobody answers")
        await original(session)

    monkeypatch.setattr(TransactionalWriter, "commit", lost)
    for number in range(3):
        assert sink.write(number, [b"%d" % number]) in set(Verdict)
    assert sink.values() == [b"0", b"1", b"2"]


def test_a_commit_of_a_job_without_a_number_that_nobody_answers_is_not_written_again(
    semel_broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(semel_broker, topic, delivery="at-least-once")
    original = TransactionalWriter.commit

    async def lost(session: TransactionalWriter) -> None:
        await original(session)
        raise OutcomeUnknown("nobody answers")

    monkeypatch.setattr(TransactionalWriter, "commit", lost)
    with pytest.raises(OutcomeUnknown):
        sink.write(0, [b"a"], query=NO_QUERY, run="")
    assert sink.values() == [b"a"]


def test_a_rolled_back_checkpoint_is_refused_unless_overridden(
    semel_broker: Broker, topic: str
) -> None:
    sink = Sink(semel_broker, topic)
    for number in range(3):
        sink.write(number, [b"%d" % number])
    forget_everything()
    with pytest.raises(BatchBehind, match="its checkpoint was rolled back"):
        sink.write(1, [b"1"], run=SECOND_RUN)
    again = Sink(semel_broker, topic, overrideMarker="true")
    assert again.write(1, [b"1 again"], run=SECOND_RUN) is Verdict.WRITE
    assert again.write(2, [b"2 again"], run=SECOND_RUN) is Verdict.WRITE
    assert sink.values() == [b"0", b"1", b"1 again", b"2", b"2 again"]


def test_a_new_query_on_an_old_id_is_written_from_its_first_batch(
    semel_broker: Broker, topic: str
) -> None:
    sink = Sink(semel_broker, topic)
    for number in range(3):
        sink.write(number, [b"old %d" % number])
    forget_everything()
    for number in range(3):
        assert sink.write(number, [b"new %d" % number], query="new") is Verdict.WRITE
    assert len(sink.values()) == 6


def test_two_queries_on_one_id_are_told(semel_broker: Broker, topic: str) -> None:
    sink = Sink(semel_broker, topic)
    sink.write(0, [b"one"], query="one", run=FIRST_RUN)
    first_knows = dict(committing._known)
    forget_everything()
    sink.write(0, [b"two"], query="two", run=SECOND_RUN)
    committing._known.update(first_knows)
    with pytest.raises(SharedTransactionalId, match="two queries share this transactional id"):
        sink.write(1, [b"one"], query="one", run=FIRST_RUN)
    forget_everything()
    with pytest.raises(SharedTransactionalId):
        sink.write(1, [b"one"], query="one", run="a restart of it")
    assert sink.values() == [b"one", b"two"]


def test_two_sinks_of_one_run_need_names(semel_broker: Broker, topic: str) -> None:
    sink = Sink(semel_broker, topic)
    sink.write(0, [b"first"])
    with pytest.raises(TwoSinks, match="give the second a name of its own"):
        sink.write(0, [b"second"])
    # It is so also where Spark has taken another process for the second.
    forget_everything()
    with pytest.raises(TwoSinks):
        sink.write(0, [b"second"])
    assert sink.values() == [b"first"]


@pytest.mark.parametrize("is_in_one_process", [True, False])
def test_two_sinks_need_names_in_the_next_run_as_well(
    semel_broker: Broker, topic: str, dialect: str, is_in_one_process: bool
) -> None:
    """Both would be skipped there, and what the second has to write would be lost."""
    sink = Sink(semel_broker, topic, kafka__client__id=dialect)
    sink.write(0, [b"first"])
    for run in (SECOND_RUN, THIRD_RUN):
        assert sink.write(0, [b"first"], run=run) is Verdict.SKIP
        if not is_in_one_process:
            forget_everything()
        with pytest.raises(TwoSinks):
            sink.write(0, [b"second"], run=run)
    assert sink.write(1, [b"next"], run=THIRD_RUN) is Verdict.WRITE
    assert sink.values() == [b"first", b"next"]


@pytest.mark.parametrize("is_done", [True, False])
def test_a_skipped_batch_whose_mark_nobody_answers_is_skipped_all_the_same(
    semel_broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    sink = Sink(semel_broker, topic)
    sink.write(0, [b"a"])
    original = TransactionalWriter.commit
    lost = iter([True])

    async def lose_once(session: TransactionalWriter) -> None:
        is_lost = next(lost, False)
        if is_done or not is_lost:
            await original(session)
        if is_lost:
            raise OutcomeUnknown("nobody answers")

    monkeypatch.setattr(TransactionalWriter, "commit", lose_once)
    assert sink.write(0, [b"a"], run=SECOND_RUN) is Verdict.SKIP
    assert sink.write(1, [b"b"], run=SECOND_RUN) is Verdict.WRITE
    assert sink.values() == [b"a", b"b"]


def test_two_sinks_with_topics_of_their_own_need_names(semel_broker: Broker, topic: str) -> None:
    other = f"{topic}-other"
    topics.create(semel_broker.bootstrap_servers, other, 2)
    one, two = (Sink(semel_broker, each, transactionalId=topic) for each in (topic, other))
    one.write(0, [b"first"])
    with pytest.raises(TwoSinks):
        two.write(0, [b"second"])
    assert one.write(1, [b"next"]) is Verdict.WRITE
    assert one.values() == [b"first", b"next"]


def test_where_the_id_was_not_taken_over_there_is_nothing_to_roll_back(
    semel_broker: Broker, topic: str
) -> None:
    sink = Sink(semel_broker, topic)
    cluster = sink.connected.cluster
    batch = BatchMarker("q", 0, FIRST_RUN)
    early = BatchTransaction(cluster, sink.settings, f"id-{topic}", batch)
    sink.connected.run(early.start_over(MustAbort("refused")))
    assert sink.write(0, [b"a"]) is Verdict.WRITE
    assert sink.values() == [b"a"]


def test_after_a_roll_back_that_failed_the_id_is_taken_over(
    semel_broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(semel_broker, topic)
    sink.write(0, [b"a"])
    batch = BatchMarker("q", 1, FIRST_RUN)
    failed = BatchTransaction(sink.connected.cluster, sink.settings, f"id-{topic}", batch)
    sink.connected.run(failed.take_over())
    sink.connected.run(failed.writer.begin())

    async def unreachable(session: TransactionalWriter) -> None:
        raise CoordinatorNotAvailable("gone")

    with monkeypatch.context() as patch:
        patch.setattr(TransactionalWriter, "renew", unreachable)
        with pytest.raises(CoordinatorNotAvailable):
            sink.connected.run(failed.start_over(MustAbort("refused")))
    # Were the writer still known, its transaction would be open.
    assert sink.write(1, [b"b"]) is Verdict.WRITE
    assert sink.values() == [b"a", b"b"]


def test_a_restart_far_on_without_a_marker_is_warned_of(
    semel_broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    sink = Sink(semel_broker, topic)
    with caplog.at_level(logging.WARNING):
        sink.write(7, [b"a"])
        sink.write(8, [b"b"])
    assert [line for line in caplog.messages if "no marker" in line] == [
        f"id-{topic} has no marker though batch 7 is not the first: it is new here, or the "
        f"cluster has let the group semel-id-{topic} expire"
    ]


def test_consumed_offsets_are_part_of_the_transaction(semel_broker: Broker, topic: str) -> None:
    sink = Sink(semel_broker, topic, offsetsGroup=f"lag-{topic}")
    consumed = {TopicPartition(topic, 1): 17, TopicPartition("on-another-cluster", 0): 5}
    sink.write(0, [b"a"], consumed=consumed)
    assert sink.offsets_of(f"lag-{topic}") == {TopicPartition(topic, 1): 17}


def test_the_groups_of_a_sink_have_the_prefix_that_access_lists_know(
    semel_broker: Broker, topic: str
) -> None:
    sink = Sink(semel_broker, topic, groupIdPrefix=f"team-{topic}")
    for run in (FIRST_RUN, SECOND_RUN):
        sink.write(0, [b"a"], run=run, consumed={TopicPartition(topic, 1): 17})
        forget_everything()
    assert sink.values() == [b"a"]
    group = f"team-{topic}-id-{topic}"
    assert sink.markers_of(group) == {MARKERS: 1}
    assert sink.offsets_of(group) == {TopicPartition(topic, 1): 17}
    assert sink.markers_of(f"semel-id-{topic}") == {}


def test_a_run_keeps_its_epoch_and_does_not_take_the_id_over_again(
    semel_broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    original = TransactionalWriter.initialise

    async def noted(session: Any) -> Any:
        taken.append(session.transactional_id)
        return await original(session)

    monkeypatch.setattr(TransactionalWriter, "initialise", noted)
    sink = Sink(semel_broker, topic)
    for number in range(3):
        sink.write(number, [b"x"])
    assert taken == [f"id-{topic}"]


def test_a_run_goes_on_in_whichever_process_spark_takes_for_its_commits(
    semel_broker: Broker, topic: str, dialect: str
) -> None:
    """Queries of one application share some, and each batch may be committed by another."""
    sink = Sink(semel_broker, topic, kafka__client__id=dialect)
    processes: list[dict[Any, Any]] = [{}, {}]
    turns = [0, 1, 0, 0, 1, 1, 0, 1]
    for number, process in enumerate(turns):
        committing._known.update(processes[process])
        assert sink.write(number, [b"%d" % number]) is Verdict.WRITE
        processes[process] = dict(committing._known)
        forget_everything()
    assert sink.values() == [b"%d" % number for number, _ in enumerate(turns)]


def test_what_comes_once_is_not_remembered(semel_broker: Broker, topic: str) -> None:
    Sink(semel_broker, topic).write(0, [b"a"], run="")
    assert committing._known == {}


def test_a_run_looks_the_marker_up_once(
    semel_broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = []

    async def noted(cluster: Cluster, *about: Any) -> Any:
        looked_up.append(about)
        return await find_marker(cluster, *about)

    monkeypatch.setattr(committing, "find_marker", noted)
    sink = Sink(semel_broker, topic)
    for number in range(3):
        sink.write(number, [b"%d" % number])
    assert len(looked_up) == 1
    forget_everything()
    assert sink.write(2, [b"2"], run=SECOND_RUN) is Verdict.SKIP
    sink.write(3, [b"3"], run=SECOND_RUN)
    assert len(looked_up) == 2
    assert sink.values() == [b"0", b"1", b"2", b"3"]


def test_a_broker_that_is_killed_and_comes_back_does_not_matter(tmp_path: Any) -> None:
    with Broker(data=tmp_path) as broker:
        topics.create(broker.bootstrap_servers, "t", 2)
        sink = Sink(broker, "t")
        sink.write(0, [b"a"])
        broker.kill()
        broker.start()
        sink.write(1, [b"b"])
        assert sink.values() == [b"a", b"b"]
