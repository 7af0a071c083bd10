"""Options by their names and kinds: what is taken, what is refused, and with which words."""

import pytest

import semel.spark
from semel.client.cluster.offsets import Isolation
from semel.client.connecting.address import BOOTSTRAP_SERVERS_VARIABLE
from semel.errors import ConfigError
from semel.records.compression import Compression
from semel.spark import options
from semel.spark.bounds import (
    EARLIEST,
    LATEST,
    Missing,
    batch_end,
    batch_start,
    check_bounds,
    stream_start,
)
from semel.spark.sink_settings import SinkSettings, sink_options, sink_settings
from semel.spark.source import SemelSource
from semel.spark.source_settings import SourceSettings, source_options, source_settings
from semel.types import TopicPartition

SERVERS = {"kafka.bootstrap.servers": "one:9092,two:9093"}


def source(**given: str) -> SourceSettings:
    names = {name.replace("__", "."): value for name, value in given.items()}
    return source_settings(source_options({**SERVERS, "subscribe": "t", **names}))


def sink(**given: str) -> SinkSettings:
    names = {name.replace("__", "."): value for name, value in given.items()}
    return sink_settings(sink_options({**SERVERS, "topic": "t", **names}))


def test_defaults_of_a_source() -> None:
    settings = source()
    assert settings.isolation is Isolation.READ_COMMITTED
    assert settings.fails_on_data_loss
    assert (settings.lookup_retries, settings.lookup_pause_ms) == (3, 10)
    assert settings.task_client.timeout_ms == 120_000
    assert settings.task_client.request_timeout_ms == settings.client.timeout_ms == 30_000
    assert settings.client.bootstrap_servers == "one:9092,two:9093"
    assert "headers" not in settings.columns
    assert settings.limits == (None, None, 15 * 60_000, None)


def test_names_may_be_written_in_any_case_as_spark_hands_them_over_in_lower_case() -> None:
    assert source(MINPARTITIONS="7").partitions_min == 7
    assert source(minpartitions="7").partitions_min == 7


EVERY_OPTION = {
    "maxOffsetsPerTrigger": "100",
    "minOffsetsPerTrigger": "10",
    "maxTriggerDelay": "5m",
    "maxBytesPerTrigger": "3m",
    "minPartitions": "4",
    "maxRecordsPerPartition": "50",
    "failOnDataLoss": "false",
    "fetchOffset.numRetries": "5",
    "fetchOffset.retryIntervalMs": "20",
    "kafkaConsumer.pollTimeoutMs": "1000",
    "includeHeaders": "true",
    "groupIdPrefix": "mine",
    "kafka.group.id": "ours",
    "kafka.isolation.level": "read_uncommitted",
    "kafka.request.timeout.ms": "2000",
    "kafka.client.id": "me",
}
NO_GROUP = {"groupIdPrefix", "kafka.group.id"}


def test_every_option_of_a_source_is_read() -> None:
    settings = source(**EVERY_OPTION)
    assert settings.limits == (100, 10, 300_000, 3 << 20)
    assert not settings.fails_on_data_loss
    assert (settings.lookup_retries, settings.lookup_pause_ms) == (5, 20)
    assert (settings.client.timeout_ms, settings.task_client.timeout_ms) == (2000, 1000)
    assert settings.client.client_id == "me"
    assert settings.columns[-1] == "headers"
    assert settings.isolation is Isolation.READ_UNCOMMITTED
    assert (settings.partitions_min, settings.partition_size_max) == (4, 50)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("startingOffset", "startingOffsets"),
        ("maxoffsetpertrigger", "maxOffsetsPerTrigger"),
        ("kafka.bootstrap.server", "kafka.bootstrap.servers"),
        ("failOnDataloss2", "failOnDataLoss"),
    ],
)
def test_an_option_that_does_not_exist_is_refused_with_the_nearest_name(
    name: str, near: str
) -> None:
    with pytest.raises(ConfigError, match=f"did you mean '{near}'"):
        source_options({**SERVERS, name: "x"})


@pytest.mark.parametrize(
    "name",
    [
        "kafka.auto.offset.reset",
        "kafka.key.deserializer",
        "kafka.value.deserializer",
        "kafka.key.serializer",
        "kafka.value.serializer",
        "kafka.enable.auto.commit",
        "kafka.interceptor.classes",
        "kafka.ssl.keystore.key",
        "kafka.ssl.enabled.protocols",
        "kafka.sasl.kerberos.service.name",
        "auto.offset.reset",
    ],
)
def test_options_that_contradict_the_source_are_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=f"option {name} is not supported: "):
        source_options({**SERVERS, name: "x"})


def test_what_has_no_effect_is_taken_and_told_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "_told", set())
    given = {
        "kafka.max.poll.records": "5",
        "kafka.group.id": "jobs",
        "groupIdPrefix": "spark",
        # Of the sink's, of another protocol, and second to a time.
        "kafka.compression.type": "zstd",
        "kafka.ssl.truststore.location": "/a.pem",
        "startingTimestamp": "1000",
        "startingOffsets": "earliest",
        "path": "t",
        # Of Spark's own, and one that is used.
        "checkpointLocation": "/checkpoint",
        "kafka.client.id": "me",
    }
    for _ in range(2):
        data_source = SemelSource({**SERVERS, "subscribe": "t", **given})
        data_source.streamReader(data_source.schema())
    (line,) = caplog.messages
    assert line == (
        "without effect here: option groupIdPrefix, kafka.compression.type, kafka.group.id, "
        "kafka.max.poll.records, kafka.ssl.truststore.location, path, startingOffsets; "
        "groupIdPrefix: a source reads without a consumer group; "
        "kafka.group.id: a source reads without a consumer group, and a sink has offsetsGroup and "
        "groupIdPrefix"
    )
    caplog.clear()
    semel.spark.exactly_once(topic="t", options={**SERVERS, "kafka.acks": "all"})
    assert caplog.messages == ["without effect here: option kafka.acks"]


def test_where_every_option_has_an_effect_nothing_is_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "_told", set())
    read = {name: value for name, value in EVERY_OPTION.items() if name not in NO_GROUP}
    data_source = SemelSource({**SERVERS, "subscribe": "t", **read})
    data_source.streamReader(data_source.schema())
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("minPartitions", "-1"),
        ("minPartitions", "many"),
        ("maxRecordsPerPartition", "0"),
        ("maxOffsetsPerTrigger", "0"),
        ("maxBytesPerTrigger", "10x"),
        ("maxTriggerDelay", "soon"),
        ("failOnDataLoss", "no"),
        ("kafka.isolation.level", "serializable"),
        ("assign", "[1, 2]"),
        ("subscribePattern", "("),
        ("assign", "t"),
        ("subscribe", "or/ders"),
        ("subscribe", "orders, " + "x" * 250),
        ("assign", '{"two words": [0]}'),
        ("startingOffsets", "{'t': {'0': 1}}"),
        ("startingOffsets", '{"t": {"0": "x"}}'),
        ("startingOffsets", "[1]"),
        ("startingOffsetsByTimestamp", '{"t": [1]}'),
        ("endingTimestamp", "2026-01-01"),
    ],
)
def test_a_bad_value_is_refused_with_the_name_of_its_option(name: str, value: str) -> None:
    way = {} if name in {"assign", "subscribe", "subscribePattern"} else {"subscribe": "t"}
    with pytest.raises(ConfigError, match=f"option {name} is .*: "):
        SemelSource({**SERVERS, **way, name: value}).schema()


@pytest.mark.parametrize("number", [-3, -100])
def test_offsets_below_zero_are_names_of_the_ends_or_nothing(number: int) -> None:
    given = {"startingOffsets": f'{{"t": {{"4": {number}}}}}'}
    with pytest.raises(ConfigError, match=f"t-4 is {number}; below 0 .* -1 for latest and -2 for"):
        stream_start(source_options(given))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("topic", ""),
        ("topic", "or/ders"),
        ("transactionalId", ""),
        ("name", ""),
        ("offsetsGroup", ""),
        ("groupIdPrefix", ""),
        ("markerTopic", ".."),
        ("maxEncodedBytes", "lots"),
        ("kafka.compression.type", "zip"),
        ("delivery", "twice"),
        ("publishOffsets", "maybe"),
        ("kafka.transaction.timeout.ms", "soon"),
    ],
)
def test_a_bad_value_of_a_sink_is_refused_with_the_name_of_its_option(
    name: str, value: str
) -> None:
    with pytest.raises(ConfigError, match=f"option {name} is '{value}': "):
        sink_settings(sink_options({**SERVERS, "topic": "t", name: value}))


def test_no_more_can_be_asked_for_at_least_than_at_most() -> None:
    with pytest.raises(ConfigError, match="more than maxOffsetsPerTrigger, 5"):
        source(maxOffsetsPerTrigger="5", minOffsetsPerTrigger="6")


@pytest.mark.parametrize("ways", [{}, {"subscribe": "a", "assign": '{"a": [0]}'}])
def test_exactly_one_way_to_say_what_is_read(ways: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="one of the options subscribe, subscribePattern, assign"):
        source_settings(source_options({**SERVERS, **ways}))


def test_the_cluster_may_be_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BOOTSTRAP_SERVERS_VARIABLE, "there:1")
    assert sink_settings(sink_options({"topic": "t"})).client.bootstrap_servers == "there:1"
    monkeypatch.delenv(BOOTSTRAP_SERVERS_VARIABLE)
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing"):
        sink_settings(sink_options({"topic": "t"}))


def test_times_win_over_times_by_partition_and_those_over_offsets() -> None:
    given = {
        "startingTimestamp": "1000",
        "startingOffsetsByTimestamp": '{"t": {"0": 2000}}',
        "startingOffsets": "earliest",
    }
    assert stream_start(source_options(given)).timestamp_ms == 1000
    del given["startingTimestamp"]
    assert stream_start(source_options(given)).timestamps_ms == {TopicPartition("t", 0): 2000}
    del given["startingOffsetsByTimestamp"]
    assert stream_start(source_options(given)).offset == EARLIEST


def test_streams_begin_at_the_end_and_batches_at_the_beginning() -> None:
    none = source_options({})
    assert stream_start(none).offset == LATEST
    assert batch_start(none).offset == EARLIEST
    assert batch_end(none).offset == LATEST
    assert stream_start(none).missing is Missing.REFUSE


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startingOffsets": "latest"}, "not 'latest'"),
        ({"startingOffsets": '{"t": {"0": -1}}'}, r"t-0 is not -1 \(latest\) here"),
        ({"startingOffsets": "{"}, "option startingOffsets is"),
        ({"startingOffsetsByTimestampStrategy": "maybe"}, "it is one of error, latest"),
    ],
)
def test_a_batch_cannot_begin_just_anywhere(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        batch_start(source_options(given))


def test_a_beginning_that_is_neither_a_name_nor_json_is_told_what_it_may_be() -> None:
    with pytest.raises(ConfigError, match="startingOffsets is 'begin': it is earliest, latest, or"):
        check_bounds(source_options({"startingOffsets": "begin"}))


def test_a_stream_has_no_end_and_a_batch_not_at_the_beginning() -> None:
    with pytest.raises(ConfigError, match="a stream has no end"):
        stream_start(source_options({"endingOffsets": "latest"}))
    with pytest.raises(ConfigError, match="not 'earliest'"):
        batch_end(source_options({"endingOffsets": "earliest"}))


def test_options_of_a_sink() -> None:
    plain = sink()
    assert plain.marker_partition == TopicPartition("t", 0)
    assert plain.checks_marker
    assert plain.transactional_id_of("q") == "semel-q-sink"
    given = sink(
        name="mine",
        delivery="at-least-once",
        markerTopic="m",
        kafka__compression__type="zstd",
        kafka__transaction__timeout__ms="9000",
        maxEncodedBytes="1g",
    )
    assert given.transactional_id_of("q") == "semel-q-mine"
    assert not given.checks_marker
    assert given.marker_partition == TopicPartition("m", 0)
    assert given.compression is Compression.ZSTD
    assert given.transaction_timeout_ms == 9000
    assert given.encoded_size_max == 1 << 30


def test_groups_of_a_sink() -> None:
    plain, named = sink(), sink(groupIdPrefix="team")
    assert (plain.marker_group_of("id"), plain.offsets_group_of("id")) == ("semel-sink-id", "id")
    assert (named.marker_group_of("id"), named.offsets_group_of("id")) == (
        "team-sink-id",
        "team-id",
    )
    assert sink(groupIdPrefix="team", offsetsGroup="lag").offsets_group_of("id") == "lag"


def test_a_sink_whose_topics_come_from_a_column_has_a_topic_for_its_marker() -> None:
    settings = sink_settings(sink_options(SERVERS))
    assert settings.marker_partition == TopicPartition("semel-markers", 0)


def test_an_option_of_the_other_side_is_called_so() -> None:
    with pytest.raises(ConfigError, match="option subscribe is for reading alone"):
        sink_options({"subscribe": "t"})
    with pytest.raises(ConfigError, match="option batchId is for writing alone"):
        source_options({"batchId": "1"})
