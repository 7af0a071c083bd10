"""Settings: from a file and from the command line, by Kafka's names, with the nearest named."""

from pathlib import Path

import pytest

from semel.broker.config import BrokerConfig, about_settings
from semel.broker.config_resources import ConfigSource
from semel.broker.endpoints import address
from semel.broker.layered_config import LayeredConfig
from semel.broker.topic_config import TOPIC_SETTINGS, check, shown
from semel.errors import ConfigError, InvalidConfig, InvalidRequest


def test_defaults_are_kafkas_where_kafka_has_them() -> None:
    config = BrokerConfig()
    shown_values = config.shown()
    assert shown_values["num.partitions"] == "1"
    assert shown_values["message.max.bytes"] == "1048588"
    assert shown_values["offsets.topic.num.partitions"] == "50"
    assert shown_values["auto.create.topics.enable"] == "true"
    assert set(shown_values) == set(about_settings())


def test_every_setting_says_what_it_is_for() -> None:
    texts = {name: setting.about for name, setting in about_settings().items()}
    texts |= {name: setting.about for name, setting in TOPIC_SETTINGS.items()}
    assert [name for name, about in texts.items() if not about.endswith(".")] == []


def test_a_file_may_nest_or_quote_and_the_command_line_wins(tmp_path: Path) -> None:
    file = tmp_path / "semel.toml"
    file.write_text(
        'num.partitions = 3\n"node.id" = 7\n[auto.create.topics]\nenable = false\n',
        encoding="utf-8",
    )
    config = BrokerConfig.from_sources(file, ["num.partitions=5"])
    assert (config.num_partitions, config.node_id) == (5, 7)
    assert not config.auto_create_topics_enable


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("num.partition=1", "did you mean 'num.partitions'?"),
        ("metrics=127.0.0.1:9", "not a setting but an option of its own: --metrics HOST:PORT"),
        ("log.dirs=/data", "not a setting but an option of its own: --data DIR"),
        ("mesage.max.byte=1", "did you mean 'message.max.bytes'?"),
        ("num.partitions=1.5", "whole number"),
        ("num.partitions=", "whole number"),
        ("num.partitions=-1", "between 1 and"),
        ("delete.topic.enable=yes", "true or false"),
        ("advertised.listeners=here", "HOST:PORT"),
        ("listeners=127.0.0.1:1,127.0.0.1:2", "another name for each"),
        ("listener.name.clients=PLAINTEXT", "it is listener.name.NAME.SETTING"),
        ("listener.name.clients.num.partitions=2", "is one for all listeners"),
        ("ssl.key.password=tulip", "arguments would show to everyone"),
        ("listener.name.clients.ssl.keystore.password=tulip", "arguments would show to everyone"),
        ("ssl.keystore.type=JCEKS", "must be of PEM, JKS, PKCS12"),
        ("message.max.bytes=50000000", "at least four times"),
        ("no equals sign", "NAME=VALUE"),
    ],
)
def test_a_bad_setting_is_refused_with_a_hint(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        BrokerConfig.from_sources(None, [text])
    assert sentence in str(refusal.value)


def test_a_setting_like_no_other_is_refused_without_one() -> None:
    with pytest.raises(ConfigError, match=r"^there is no setting 'quorum'$"):
        BrokerConfig.from_sources(None, ["quorum=1"])


@pytest.mark.parametrize("content", ["= 1", "num.partitions = [1]", "\xff"])
def test_a_bad_file_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "semel.toml"
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(ConfigError):
        BrokerConfig.from_sources(file, [])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml"):
        BrokerConfig.from_sources(tmp_path / "none.toml", [])


def test_every_default_of_a_topic_is_a_value_that_it_may_have() -> None:
    check({name: setting.default for name, setting in TOPIC_SETTINGS.items()}, 2**30)


@pytest.mark.parametrize("value", ["", " ", "delete", "compact,delete", "compact , delete"])
def test_a_list_may_have_any_of_its_choices_or_none(value: str) -> None:
    check({"cleanup.policy": value}, 2**30)


def test_a_topics_value_wins_over_the_brokers_and_that_over_the_default() -> None:
    broker = LayeredConfig(BrokerConfig(message_max_bytes=5_000))
    by_name = {each.name: (each.value, each.source) for each in shown({}, broker)}
    assert by_name["max.message.bytes"] == ("5000", ConfigSource.STATIC_BROKER)
    assert by_name["retention.ms"] == ("604800000", ConfigSource.DEFAULT)
    own = {each.name: each for each in shown({"max.message.bytes": "5"}, broker)}
    assert [(each.name, each.value, each.source) for each in own["max.message.bytes"].synonyms] == [
        ("max.message.bytes", "5", ConfigSource.TOPIC),
        ("message.max.bytes", "5000", ConfigSource.STATIC_BROKER),
        ("message.max.bytes", "1048588", ConfigSource.DEFAULT),
    ]


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"retention.mss": "1"}, "did you mean 'retention.ms'?"),
        ({"retention.ms": "-2"}, "between -1 and"),
        ({"retention.ms": "soon"}, "whole number"),
        ({"cleanup.policy": "delete,shred"}, "must be of delete, compact"),
        ({"cleanup.policy": "delete,"}, "must be of delete, compact"),
        ({"compression.type": "rar"}, "must be of"),
        ({"compression.type": ""}, "must be of"),
        ({"preallocate": "maybe"}, "true or false"),
        ({"max.message.bytes": "2000"}, "at most 1000 bytes"),
    ],
)
def test_a_bad_setting_of_a_topic_is_refused_with_a_hint(
    config: dict[str, str], sentence: str
) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        check(config, 1_000)
    assert sentence in str(refusal.value)


def test_addresses_are_read() -> None:
    assert address("127.0.0.1:9092") == ("127.0.0.1", 9092)
    assert address("[::1]:0") == ("::1", 0)
    assert address(":9092") == ("127.0.0.1", 9092)
    for text in ("", "host", "host:", "host:port", "host:70000", "host:-1"):
        with pytest.raises(ConfigError):
            address(text)


@pytest.mark.parametrize("name", ["log.retention.hours", "log.retention.minutes"])
def test_a_setting_that_stands_for_another_at_a_start_names_it_while_the_broker_runs(
    name: str,
) -> None:
    assert BrokerConfig.from_sources(None, [f"{name}=1"]).log_retention_ms > 0
    with pytest.raises(InvalidRequest, match=r"set log\.retention\.ms"):
        LayeredConfig(BrokerConfig()).with_layer("", {name: "1"})
