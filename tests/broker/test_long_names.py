"""Names and settings of absurd length: refused in a few words, at once, with nothing changed."""

import pytest

from semel.records.records import Record, encode_batch
from semel.testing import Broker
from semel.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from support.raw_client import RawClient, metric, produce_request

INVALID_TOPIC, UNKNOWN_TOPIC, INVALID_CONFIG = 17, 3, 40
MESSAGE_LENGTH_MAX = 1_000
LONG = "\x00" * 30_000  # Its repr is four times as long.


def test_a_long_topic_name_is_quoted_in_part(broker: Broker) -> None:
    batch = encode_batch([Record(None, b"")])
    with RawClient(broker) as client:
        response = client.call("produce", 8, produce_request(LONG, batch))
        answer = response.responses[0].partition_responses[0]
        assert answer.error_code == UNKNOWN_TOPIC
        assert len(answer.error_message) <= MESSAGE_LENGTH_MAX
        wanted = DeleteTopicsRequest([DeleteTopicState(LONG)])
        (deleted,) = client.call("delete_topics", 6, wanted).responses
        assert deleted.error_code == UNKNOWN_TOPIC
        assert len(deleted.error_message) <= MESSAGE_LENGTH_MAX


@pytest.mark.parametrize("version", [2, 7])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        (LONG, "1"),
        ("e" * 32_000, "1"),
        ("retention.ms", " " * 32_000 + "1"),
        ("retention.ms", "1" * 4_000),
        ("retention.ms", "1_000"),
        ("retention.ms", "\u0663"),
        ("cleanup.policy", ",".join(["delete"] * 4_681)),
        ("cleanup.policy", "x" * 30_000),
        ("preallocate", "t" * 30_000),
        ("min.cleanable.dirty.ratio", "nan"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(
    broker: Broker, version: int, name: str, value: str
) -> None:
    topic = CreatableTopic("new", 1, 1, configs=[CreatableTopicConfig(name, value)])
    with RawClient(broker) as client:
        before = metric(broker, "semel_journal_frames")
        (result,) = client.call("create_topics", version, CreateTopicsRequest([topic])).topics
        assert result.error_code == INVALID_CONFIG
        assert len(result.error_message) <= MESSAGE_LENGTH_MAX
        assert metric(broker, "semel_journal_frames") == before


def test_settings_of_megabytes_are_refused_at_once(broker: Broker) -> None:
    configs = [
        CreatableTopicConfig("e" * 5_000_000, "1"),
        CreatableTopicConfig("retention.ms", "1"),
    ]
    topic = CreatableTopic("new", 1, 1, configs=configs)
    with RawClient(broker) as client:
        (result,) = client.call("create_topics", 7, CreateTopicsRequest([topic])).topics
        assert result.error_code == INVALID_CONFIG
        assert len(result.error_message) <= MESSAGE_LENGTH_MAX
