"""A query leaves one group, under its name, and finds the markers that older sinks have left."""

import asyncio
from collections.abc import Iterator, Sequence
from zlib import crc32

import pyarrow as pa
import pytest

from semel.client.admin.groups import list_all
from semel.client.cluster.blocking import Connected, shared
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.group_offsets import group_offsets
from semel.client.columns.encode import encode, rows_from
from semel.client.producing.coordination import GroupMetadata, GroupOffset
from semel.client.writing.transactional_writer import TransactionalWriter
from semel.errors import GroupAuthorizationFailed, TopicAuthorizationFailed
from semel.spark import committing, marker_home
from semel.spark.committing import commit_batch
from semel.spark.marker import BatchMarker, Verdict, read_marker
from semel.spark.sink_settings import sink_options, sink_settings
from semel.testing import Broker
from semel.types import TopicPartition
from support import topics

MARKERS = TopicPartition("semel-markers", 0)


@pytest.fixture
def topic(semel_broker: Broker, request: pytest.FixtureRequest) -> str:
    name = topics.name_for(request)
    topics.create(semel_broker.bootstrap_servers, name)
    return name


@pytest.fixture
def query_id(topic: str) -> str:
    """Of the form of Spark's, and of this test alone."""
    return f"{crc32(topic.encode()):08x}-1111-2222-3333-444444444444"


@pytest.fixture(autouse=True)
def fresh_process() -> Iterator[None]:
    yield
    committing._known.clear()


class Query:
    def __init__(self, broker: Broker, topic: str, query_id: str, **options: str) -> None:
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic, **options}
        self.settings = sink_settings(sink_options(given))
        self.connected: Connected = shared(self.settings.client)
        self.servers, self.topic, self.query_id = broker.bootstrap_servers, topic, query_id

    def write(
        self,
        number: int,
        values: Sequence[bytes],
        *,
        name: str = "",
        run: str = "run",
        consumed: dict[TopicPartition, int] | None = None,
    ) -> Verdict:
        """As a process of Spark's that has just started."""
        committing._known.clear()
        rows = rows_from(None, pa.array(values, pa.binary()), now_ms=1)
        places = pa.array([0] * len(values), pa.int32()).to_numpy()
        encoded = [(TopicPartition(self.topic, 0), each.content) for each in encode(rows, places)]
        work = commit_batch(
            self.connected.cluster,
            self.settings,
            self.settings.transactional_id_of(self.query_id),
            BatchMarker(self.query_id, number, run, query_name=name),
            encoded,
            consumed,
        )
        return self.connected.run(work)

    def offsets_of(self, group: str) -> dict[TopicPartition, GroupOffset]:
        places = [MARKERS, TopicPartition(self.topic, 0)]
        return self.connected.run(group_offsets(self.connected.cluster, group, places))

    def groups(self) -> set[str]:
        own = self.query_id.partition("-")[0]
        listed = self.connected.run(list_all(self.connected.cluster))
        return {each.group_id for each in listed if own in each.group_id}

    def values(self) -> list[bytes]:
        return topics.values(self.servers, self.topic)


def leave_a_marker_as_version_0_2(query: Query, batch_id: int) -> str:
    """What that version's sink wrote for a batch, by what it was told: its group."""
    transactional_id = f"semel-{query.query_id}-sink"
    group = f"semel-sink-{transactional_id}"
    metadata = f'{{"queryId": "{query.query_id}", "batchId": {batch_id}, "runId": "old"}}'
    place = TopicPartition(query.topic, 0)

    async def write() -> None:
        writer = TransactionalWriter(query.connected.cluster, transactional_id)
        await writer.initialise()
        await writer.begin()
        at = {place: GroupOffset(batch_id + 1, metadata)}
        await writer.send_offsets(GroupMetadata(group), at)
        await writer.commit()

    query.connected.run(write())
    return group


def test_a_query_leaves_one_group_under_its_name(
    semel_broker: Broker, topic: str, query_id: str
) -> None:
    source = f"{topic}-source"
    topics.create(semel_broker.bootstrap_servers, source)
    query = Query(semel_broker, topic, query_id)
    read = {TopicPartition(source, 0): 7}
    assert query.write(0, [b"a"], name="loud", consumed=read) is Verdict.WRITE
    assert query.write(0, [b"a"], name="loud", run="next", consumed=read) is Verdict.SKIP
    group = f"semel-loud-{query_id[:8]}"
    assert query.groups() == {group}
    found = query.connected.run(group_offsets(query.connected.cluster, group, [MARKERS, *read]))
    assert {place: at.offset for place, at in found.items()} == {MARKERS: 1, **read}


def test_the_marker_tells_what_was_written(semel_broker: Broker, topic: str, query_id: str) -> None:
    query = Query(semel_broker, topic, query_id)
    query.write(0, [b"a", b"b"], name="loud")
    query.write(0, [b"a", b"b"], name="loud", run="next")
    query.write(1, [b"c", b"d", b"e"], name="loud", run="next")
    at = query.offsets_of(f"semel-loud-{query_id[:8]}")[MARKERS]
    marker = read_marker(at.offset, at.metadata)
    assert (marker.batch_id, marker.query_name) == (1, "loud")
    assert (marker.written.rows, marker.written.skipped) == (3, 1)
    assert marker.written.size > 61
    assert marker.written.at_ms >= marker.written.since_ms > 0


def test_a_marker_that_an_older_version_has_left_is_found_and_kept_where_it_is(
    semel_broker: Broker, topic: str, query_id: str
) -> None:
    query = Query(semel_broker, topic, query_id)
    group = leave_a_marker_as_version_0_2(query, 4)
    assert query.write(4, [b"twice"], name="loud") is Verdict.SKIP
    assert query.write(5, [b"a"], name="loud") is Verdict.WRITE
    assert query.write(5, [b"a"], name="loud", run="next") is Verdict.SKIP
    assert query.values() == [b"a"]
    assert query.groups() == {group}


@pytest.mark.parametrize(("before", "after"), [("one", "two"), ("", "two"), ("one", "")])
def test_a_query_that_is_renamed_goes_on_in_its_group(
    semel_broker: Broker, topic: str, query_id: str, before: str, after: str
) -> None:
    query = Query(semel_broker, topic, query_id)
    query.write(0, [b"a"], name=before)
    query.write(1, [b"b"], name=before)
    (group,) = query.groups()
    assert query.write(1, [b"b"], name=after, run="next") is Verdict.SKIP
    query.write(2, [b"c"], name=after, run="next")
    assert query.write(2, [b"c"], name=before, run="last") is Verdict.SKIP
    assert query.values() == [b"a", b"b", b"c"]
    assert query.groups() == {group}


def test_namesakes_have_groups_of_their_own(
    semel_broker: Broker, topic: str, query_id: str
) -> None:
    one = Query(semel_broker, topic, query_id)
    other = Query(semel_broker, topic, f"ffff{query_id[4:]}")
    one.write(0, [b"a"], name="loud")
    other.write(0, [b"b"], name="loud")
    assert one.write(0, [b"a"], name="loud", run="next") is Verdict.SKIP
    assert other.write(0, [b"b"], name="loud", run="next") is Verdict.SKIP
    assert one.groups().isdisjoint(other.groups())


def test_where_no_topic_for_markers_can_be_had_they_stand_apart(
    semel_broker: Broker, topic: str, query_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Cluster.topic_to_write

    async def refused(cluster: Cluster, name: str, *about: object, **more: object) -> object:
        await asyncio.sleep(0)
        if name == MARKERS.topic:
            raise TopicAuthorizationFailed(name)
        return await original(cluster, name, *about, **more)  # type: ignore[arg-type]

    query = Query(semel_broker, topic, query_id)
    with monkeypatch.context() as patch:
        patch.setattr(Cluster, "topic_to_write", refused)
        query.write(0, [b"a"], name="loud")
    # Where it has begun it stays, though the topic can be had by now.
    assert query.write(0, [b"a"], name="loud", run="next") is Verdict.SKIP
    query.write(1, [b"b"], name="loud", run="next")
    assert query.groups() == {f"semel-sink-semel-{query_id}-sink"}
    assert query.values() == [b"a", b"b"]


@pytest.mark.parametrize("kind", ["named", "apart"])
def test_access_lists_may_know_the_groups_of_one_kind_only(
    semel_broker: Broker, topic: str, query_id: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(semel_broker, topic, query_id)
    groups = {
        "named": f"semel-loud-{query_id[:8]}",
        "apart": f"semel-sink-semel-{query_id}-sink",
    }
    original = group_offsets

    async def refusing(cluster: Cluster, group: str, *about: object) -> object:
        if group in groups.values() and group != groups[kind]:
            raise GroupAuthorizationFailed(group)
        return await original(cluster, group, *about)  # type: ignore[arg-type]

    monkeypatch.setattr(marker_home, "group_offsets", refusing)
    query.write(0, [b"a"], name="loud")
    assert query.write(0, [b"a"], name="loud", run="next") is Verdict.SKIP
    assert query.groups() == {groups[kind]}
