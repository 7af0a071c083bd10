"""What `semel serve` takes, on the command line and from a file."""

from pathlib import Path

import pytest

from semel.broker.config import BrokerConfig
from semel.broker.options import ServeOptions
from semel.cli import serve
from semel.errors import ConfigError
from semel.testing import Broker
from semel.testing.broker import BrokerDidNotStart

NOT_IN_A_FILE = {"config", "settings", "as_worker", "stop_with_stdin"}


def told(file: Path, content: str, *arguments: str) -> ServeOptions:
    file.write_text(content, encoding="utf-8")
    return serve.options_of(["--config", str(file), *arguments])


def test_a_file_takes_every_option_and_the_command_line_comes_first(tmp_path: Path) -> None:
    values = {
        "listen": "0.0.0.0:1",
        "advertise": "host:1",
        "data": Path("elsewhere"),
        "ephemeral": True,
        "store": "s3://bucket/path",
        "store_options": ("region=a", "endpoint=b"),
        "journal": "postgresql://host/database",
        "node_id": 3,
        "cache": Path("cache"),
        "volumes": "s3://bucket/volumes",
        "metrics": "127.0.0.1:2",
        "log_level": "warning",
        "log_format": "json",
        "workers": 2,
    }
    assert values.keys() <= ServeOptions.__dataclass_fields__.keys() - NOT_IN_A_FILE
    content = """
num.partitions = 4
[serve]
listen = "0.0.0.0:1"
advertise = "host:1"
data = "elsewhere"
ephemeral = true
store = "s3://bucket/path"
store-option = ["region=a", "endpoint=b"]
journal = "postgresql://host/database"
node-id = 3
cache = "cache"
volumes = "s3://bucket/volumes"
metrics = "127.0.0.1:2"
log-level = "warning"
log_format = "json"
workers = 2
"""
    file = tmp_path / "semel.toml"
    options = told(file, content)
    assert {name: getattr(options, name) for name in values} == values
    assert BrokerConfig.from_sources(file, ()).num_partitions == 4
    assert told(file, content, "--listen", "127.0.0.1:9").listen == "127.0.0.1:9"
    assert not told(file, "[serve]\nephemeral = false\n").ephemeral
    assert told(file, "num.partitions = 4\n").listen == ServeOptions().listen


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('[serve]\nlisten-at = "x"', "unrecognized arguments: --listen-at x"),
        ("[serve]\nephemeral = 3", r"in \[serve\]: ephemeral is true or false, and not '3'"),
        ('[serve]\nephemeral = "yes"\nworkers = 2', "ephemeral is true or false, and not 'yes'"),
        ('[serve]\nworkers = "many"', "invalid int value: 'many'"),
        ("[serve]\nlisten.host = 1", "serve.listen must not be a table"),
        ("serve = 1", "serve must be a table"),
        ("[sreve]\nworkers = 2", r"there is no table \[sreve\]; did you mean 'serve'?"),
        ('[serve]\nset = "num.partitions=1"', r"settings stand outside of \[serve\]"),
        ('[serve]\nlog-level = "loud"', "invalid choice: 'loud'"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_name(
    tmp_path: Path, content: str, sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence) as refused:
        told(tmp_path / "semel.toml", content)
    assert "semel.toml: " in str(refused.value)


def test_a_folder_of_others_is_not_made_a_data_folder(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(BrokerDidNotStart, match=r"such as 'letters\.txt': name an empty folder"):
        Broker(data=tmp_path).start()
    assert [each.name for each in tmp_path.iterdir()] == ["letters.txt"]


@pytest.mark.parametrize("folder", ["kept", "semel-data"])
def test_a_folder_and_a_temporary_one_are_not_asked_for_at_once(
    tmp_path: Path, folder: str
) -> None:
    file = tmp_path / "semel.toml"
    file.write_text(f'[serve]\ndata = "{folder}"\n', encoding="utf-8")
    for arguments in (["--data", folder], ["--config", str(file)]):
        with pytest.raises(ConfigError, match=f"--data {folder} keeps data for good, and --eph"):
            serve.main([*arguments, "--ephemeral", "--listen", "127.0.0.1:0"])


def test_what_a_file_system_has_in_an_empty_folder_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / ".keep").touch()
    for _ in range(2):
        with Broker(data=tmp_path) as broker:
            assert broker.is_running
        # What comes later beside the data is left alone.
        (tmp_path / "notes.txt").write_text("dear")
    assert (tmp_path / "notes.txt").read_text() == "dear"
