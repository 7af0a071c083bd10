"""Which settings of arguments, files, profiles and the environment a command connects with."""

import os
from pathlib import Path

import pytest

from semel.cli.connection import CONNECTION_SETTINGS, Connection, connection_of
from semel.errors import ConfigError
from semel.security import PLAINTEXT, Sasl, Security, Tls

PROFILES = """
[profiles.safe]
bootstrap.servers = "one:9093,two:9093"
security.protocol = "SASL_SSL"
sasl.mechanism = "SCRAM-SHA-512"
sasl.username = "ana"
sasl.password = { file = "secret" }
ssl.ca.location = "/etc/ca.pem"
client.id = "ana-at-work"
request.timeout.ms = 500

[profiles.default]
"bootstrap.servers" = "everyday:9092"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where profiles lie; nothing else of the environment says anything."""
    for name in ("SEMEL_PROFILE", "SEMEL_BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "semel").mkdir()
    (tmp_path / "semel" / "config.toml").write_text(PROFILES)
    (tmp_path / "semel" / "secret").write_text("tulip\n")
    return tmp_path / "semel"


def connection(
    *given: str, servers: str | None = None, profile: str | None = None, file: Path | None = None
) -> Connection:
    pairs = [(name, value) for name, _, value in (one.partition("=") for one in given)]
    return connection_of(servers, profile, file, pairs)


SAFE = Security(Tls("/etc/ca.pem"), Sasl("SCRAM-SHA-512", "ana", "tulip"))


def test_a_profile_says_everything() -> None:
    assert connection(profile="safe") == Connection(
        "one:9093,two:9093", SAFE, True, "ana-at-work", 500
    )


def test_the_environment_names_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEMEL_PROFILE", "safe")
    monkeypatch.setenv("SEMEL_BOOTSTRAP_SERVERS", "other:9092")
    assert connection().security == SAFE
    assert connection().bootstrap_servers == "one:9093,two:9093"
    assert connection(profile="default").security == PLAINTEXT


def test_the_default_profile_counts_where_nothing_else_names_brokers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert connection().bootstrap_servers == "everyday:9092"
    assert connection(servers="given:9092").bootstrap_servers == "given:9092"
    monkeypatch.setenv("SEMEL_BOOTSTRAP_SERVERS", "other:9092")
    assert connection().bootstrap_servers is None


def test_arguments_come_before_files_and_files_before_profiles(tmp_path: Path) -> None:
    (file := tmp_path / "client.properties").write_text(
        "sasl.username=bob\nclient.id=of-the-file\nsome.thing=else"
    )
    found = connection("sasl.username=cleo", profile="safe", file=file)
    assert found.security == SAFE._replace(sasl=Sasl("SCRAM-SHA-512", "cleo", "tulip"))
    assert found.client_id == "of-the-file"
    assert connection("bootstrap.servers=a", profile="safe").bootstrap_servers == "a"
    assert connection("metadata.broker.list=a", servers="b").bootstrap_servers == "b"


def test_names_of_librdkafka_stand_for_those_of_kafka_in_any_place() -> None:
    found = connection("ssl.truststore.location=mine.pem", "sasl.mechanisms=PLAIN", profile="safe")
    assert found.security == Security(Tls("mine.pem"), Sasl("PLAIN", "ana", "tulip"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["sasl.usrname=x"], "there is no setting 'sasl.usrname'; did you mean 'sasl.username'?"),
        (["sasl.password=tulip"], "would show to everyone on this machine"),
        (["request.timeout.ms=soon"], "request.timeout.ms is 'soon': it is a number"),
        (["security.protocol=TLS"], "security.protocol is 'TLS'"),
    ],
)
def test_a_mistake_in_arguments_is_told(given: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        connection(*given)
    assert words in str(raised.value)
    assert "tulip" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[profiles.safe", "Expected ']'"),
        ("[profile.safe]", "there is no table 'profile'; did you mean 'profiles'?"),
        ("profiles = 3", "a profile is a table, as [profiles.default]"),
        ("[profiles]\nsafe = 3", "a profile is a table, as [profiles.default]"),
        ("[profiles.safe]\nsasl.mechanismus = 'PLAIN'", "did you mean 'sasl.mechanisms'?"),
        ("[profiles.safe]\nclient.id = [1]", "profile safe: client.id has to be text"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_name(folder: Path, text: str, words: str) -> None:
    (folder / "config.toml").write_text(text)
    with pytest.raises(ConfigError) as raised:
        connection(profile="safe")
    assert str(raised.value).startswith(f"{folder}/config.toml: ")
    assert words in str(raised.value)


def test_a_profile_that_is_not_there_is_told(folder: Path) -> None:
    with pytest.raises(ConfigError, match="no profile 'saef'; did you mean 'safe'"):
        connection(profile="saef")
    (folder / "config.toml").unlink()
    with pytest.raises(ConfigError, match=f"there is no profile 'safe', as there is no {folder}"):
        connection(profile="safe")


def test_a_secret_that_is_away_is_told_with_its_setting(folder: Path) -> None:
    (folder / "secret").unlink()
    with pytest.raises(ConfigError, match=r"profile safe: sasl\.password: .*/secret: no such file"):
        connection(profile="safe")


def test_each_setting_has_a_meaning() -> None:
    assert all(CONNECTION_SETTINGS.values())
    assert "SEMEL_PROFILE" not in os.environ
