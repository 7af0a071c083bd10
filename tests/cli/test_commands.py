"""The commands, run in this process against a broker."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
from kafka import KafkaConsumer
from kafka.structs import TopicPartition as KafkaTopicPartition

from semel.broker.config import about_settings
from semel.cli.main import main
from semel.testing import Broker
from support.command_line import Run, eventually, rows


def lines(file: Path, *texts: str) -> str:
    file.write_text("".join(f"{text}\n" for text in texts))
    return str(file)


def test_topics_are_created_listed_and_deleted(run: Run) -> None:
    assert run("topic", "create", "cli-a", "cli-b", "-p", "2") == (
        0,
        "created topic cli-a\ncreated topic cli-b\n",
        "",
    )
    code, out, err = run("topic", "create", "cli-a")
    assert (code, out) == (1, "")
    assert err.startswith("semel: ")
    assert "cli-a" in err
    assert run("topic", "create", "cli-a", "--if-not-exists") == (
        0,
        "topic cli-a exists already\n",
        "",
    )
    eventually(run, "topic", "list", holds=lambda out: ["cli-a", "2", "1"] in rows(out))
    _, out, _ = run("topic", "list")
    assert rows(out)[0] == ["NAME", "PARTITIONS", "REPLICAS"]
    _, out, _ = run("topic", "list", "--json", "cli-b")
    assert json.loads(out) == [{"name": "cli-b", "partitions": 2, "replicas": 1}]
    assert run("topic", "delete", "cli-a", "cli-b")[0] == 0
    eventually(run, "topic", "describe", "cli-a", holds=lambda said: "does not exist" in said)
    code, out, err = run("topic", "describe", "cli-a")
    assert (code, out, err) == (1, "", "semel: topic cli-a does not exist\n")


def test_of_several_topics_all_are_created_or_none(run: Run) -> None:
    run("topic", "create", "all-or-none-a")
    code, out, err = run("topic", "create", "all-or-none-b", "all or none")
    assert (code, out) == (1, "")
    refused, rest = err.splitlines()
    assert "'all or none' has characters" in refused
    assert rest == "semel: no topic was created"
    code, out, err = run("topic", "create", "all-or-none-b", "all-or-none-a")
    assert (code, out) == (1, "")
    assert "all-or-none-a" in err
    assert err.endswith("semel: no topic was created\n")
    assert "all-or-none-b" not in run("topic", "list")[1]
    _, out, _ = run("topic", "create", "all-or-none-b", "all-or-none-a", "--if-not-exists")
    assert sorted(out.splitlines()) == [
        "created topic all-or-none-b",
        "topic all-or-none-a exists already",
    ]
    _, out, _ = run(
        "topic", "create", "all-or-none-b", "all-or-none-a", "--if-not-exists", "--json"
    )
    assert all(each["error"] is None for each in json.loads(out))


def test_a_topic_is_described_with_its_settings_and_offsets(run: Run, tmp_path: Path) -> None:
    run("topic", "create", "cli-d", "-p", "1", "-c", "retention.ms=1234", "-c", "segment.ms=99")
    run("produce", "cli-d", lines(tmp_path / "in", "one", "two"))
    code, out, _ = run("topic", "describe", "cli-d")
    assert code == 0
    assert rows(out)[0] == ["cli-d"]
    assert ["retention.ms", "1234", "DYNAMIC_TOPIC_CONFIG"] in rows(out)
    assert ["cleanup.policy", "delete", "DEFAULT_CONFIG"] in rows(out)
    assert "min.compaction.lag.ms" not in out
    assert "flush.ms" not in out
    assert rows(out)[-1][0] == "0"
    assert rows(out)[-1][-3:-1] == ["0", "2"]
    assert int(rows(out)[-1][-1]) > 61
    assert ["bytes", rows(out)[-1][-1]] in rows(out)
    _, out, _ = run("topic", "describe", "cli-d", "--json")
    (described,) = json.loads(out)
    assert described["configs"]["retention.ms"] == "1234"
    assert described["config_sources"]["retention.ms"] == "DYNAMIC_TOPIC_CONFIG"
    assert described["partitions"][0] == {
        "partition": 0,
        "leader": described["partitions"][0]["leader"],
        "epoch": 0,
        "replicas": [1],
        "in_sync": [1],
        "start": 0,
        "end": 2,
        "bytes": described["bytes"],
    }
    assert run("topic", "alter-config", "cli-d", "-c", "retention.ms=77")[0] == 0
    changed = ["topic", "describe", "cli-d", "-a"]
    expected = ["retention.ms", "77", "DYNAMIC_TOPIC_CONFIG"]
    eventually(run, *changed, holds=lambda out: expected in rows(out) and "flush.ms" in out)


def test_a_compacted_topic_is_described_with_what_decides_that_one_after_the_other(
    run: Run,
) -> None:
    run("topic", "create", "cli-e", "-p", "1", "-c", "cleanup.policy=compact")
    run("topic", "create", "cli-f", "-p", "1")
    eventually(run, "topic", "describe", "cli-f", holds=lambda out: ["cli-f"] in rows(out))
    _, out, _ = run("topic", "describe", "cli-e", "cli-f")
    assert ["min.compaction.lag.ms", "0", "DEFAULT_CONFIG"] in rows(out)
    first, second = out.index("cli-e\n"), out.index("\n\ncli-f\n")
    assert 0 == first < second


def test_the_oldest_records_are_deleted_up_to_a_place(run: Run, tmp_path: Path) -> None:
    run("topic", "create", "cli-r", "-p", "2")
    run("produce", "cli-r", lines(tmp_path / "in", *"abcdefgh"))
    code, out, _ = run("topic", "delete-records", "cli-r", "--before", "-3")
    assert code == 0
    assert rows(out)[0] == ["TOPIC", "PARTITION", "PRIOR-START", "START"]
    assert rows(out)[1:] == [["cli-r", "0", "0", "1"], ["cli-r", "1", "0", "1"]]
    code, out, _ = run("topic", "delete-records", "cli-r", "--before", "2", "-p", "1", "--json")
    assert (code, json.loads(out)) == (
        0,
        [{"topic": "cli-r", "partition": 1, "prior_start": 1, "start": 2, "error": None}],
    )
    _, out, _ = run("consume", "cli-r", "-e", "-p", "1", "-f", "%s")
    assert out == "fh"
    code, out, _ = run("topic", "delete-records", "cli-r", "--before", "@2100-01-01", "-p", "0")
    assert rows(out)[1:] == [["cli-r", "0", "1", "4"]]
    run("topic", "delete-records", "cli-r", "--before", "end")
    assert run("consume", "cli-r", "-e")[:2] == (0, "")


def test_an_offset_behind_the_end_deletes_nothing(run: Run, tmp_path: Path) -> None:
    run("topic", "create", "cli-s", "-p", "1")
    run("produce", "cli-s", lines(tmp_path / "in", "a", "b"))
    code, out, err = run("topic", "delete-records", "cli-s", "--before", "3")
    assert (code, out) == (1, "")
    told = "semel: offset 3 is not there yet: cli-s-0 ends at 2; nothing was deleted\n"
    assert err == told
    assert run("consume", "cli-s", "-e", "-f", "%s")[1] == "ab"
    run("topic", "alter-config", "cli-s", "-c", "cleanup.policy=compact")
    compacted = "semel: cli-s-0: its topic is compacted, and keeps the newest record of each key\n"
    delete = ["topic", "delete-records", "cli-s", "--before", "0"]
    eventually(run, *delete, holds=lambda said: said == compacted)
    code, _, err = run("topic", "delete-records", "cli-s", "--before", "1", "-p", "7")
    assert (code, err) == (1, "semel: topic cli-s has no partition 7: it has 1\n")


def test_an_offset_behind_the_end_of_one_partition_deletes_nothing_of_the_others(
    run: Run, tmp_path: Path
) -> None:
    run("topic", "create", "cli-u", "-p", "2")
    run("produce", "cli-u", lines(tmp_path / "in", "a", "b"), "-p", "1")
    delete = ["topic", "delete-records", "cli-u", "--before", "2"]
    code, out, err = run(*delete)
    assert (code, out) == (1, "")
    assert "cli-u-0 ends at 0; nothing was deleted" in err
    assert run("consume", "cli-u", "-e", "-f", "%s")[1] == "ab"
    assert run(*delete, "-p", "1")[0] == 0
    assert run("consume", "cli-u", "-e")[1] == ""


def test_settings_of_a_broker_of_all_and_of_a_topic_are_set_shown_and_taken_back(run: Run) -> None:
    broker = ["config", "describe", "broker", "1"]
    name = "log.cleaner.min.compaction.lag.ms"
    for_all, for_this = "DYNAMIC_DEFAULT_BROKER_CONFIG", "DYNAMIC_BROKER_CONFIG"
    code, out, _ = run(*broker, name)
    assert code == 0
    assert rows(out)[0] == ["SETTING", "VALUE", "SOURCE", "READ-ONLY"]
    assert rows(out)[1:] == [[name, "0", "DEFAULT_CONFIG", "no"]]
    assert run("config", "set", "broker", "all", f"{name}=5")[:2] == (
        0,
        "changed settings of all brokers\n",
    )
    eventually(run, *broker, name, holds=lambda out: [name, "5", for_all, "no"] in rows(out))
    assert run("config", "set", "broker", "1", f"{name}=7")[0] == 0
    eventually(run, *broker, name, holds=lambda out: [name, "7", for_this, "no"] in rows(out))
    _, out, _ = run("config", "describe", "broker", "all", "--json")
    assert [(one["name"], one["value"]) for one in json.loads(out) if one["name"] == name] == [
        (name, "5")
    ]
    run("topic", "create", "cli-conf", "-p", "1")
    topic = ["config", "describe", "topic", "cli-conf", "--changed"]
    lag = "min.compaction.lag.ms"
    eventually(run, *topic, holds=lambda out: [lag, "7", for_this, "no"] in rows(out))
    assert run("config", "set", "topic", "cli-conf", f"{lag}=9", "retention.ms=-1")[0] == 0
    of_topic = "DYNAMIC_TOPIC_CONFIG"
    eventually(run, *topic, holds=lambda out: [lag, "9", of_topic, "no"] in rows(out))
    assert run("config", "unset", "topic", "cli-conf", lag, "retention.ms")[0] == 0
    assert run("config", "unset", "broker", "1", name)[0] == 0
    assert run("config", "unset", "broker", "all", name)[0] == 0
    eventually(run, *topic, holds=lambda out: lag not in out and "retention.ms" not in out)
    eventually(run, *broker, name, holds=lambda out: "DEFAULT_CONFIG" in out)


def test_settings_that_are_not_there_are_named(run: Run) -> None:
    code, out, err = run("config", "describe", "broker", "7")
    assert (code, out, err) == (2, "", "semel: there is no broker '7': there are 1, and `all`\n")
    code, out, err = run("config", "describe", "broker", "1", "log.retention.mss")
    assert (code, out) == (1, "")
    assert "did you mean 'log.retention.ms'?" in err
    assert run("config", "set", "broker", "1", "log.cleaner.min.compaction.lag.ms=x")[0] == 1
    assert run("config", "set", "broker", "1", "log.retention.hours=1")[0] == 1
    assert run("config", "describe", "group", "cli-unset")[0] == 0


def test_partitions_are_added_by_number_or_up_to_one(run: Run) -> None:
    run("topic", "create", "cli-p", "-p", "1")
    assert run("topic", "add-partitions", "cli-p", "-n", "2")[0] == 0
    assert run("topic", "add-partitions", "cli-p", "--partitions", "5")[0] == 0
    eventually(run, "topic", "list", holds=lambda out: ["cli-p", "5", "1"] in rows(out))
    assert run("topic", "add-partitions", "cli-p", "-p", "2")[0] == 1
    assert run("topic", "add-partitions", "cli-p")[0] == 2
    assert run("topic", "add-partitions", "cli-p", "-p", "9", "-n", "1")[0] == 2


def test_produced_lines_are_read_by_another_client(
    run: Run, semel_broker: Broker, tmp_path: Path
) -> None:
    run("topic", "create", "cli-out", "-p", "1")
    file = lines(tmp_path / "in", "k1=v1", "no delimiter", "k2=")
    options = ["-K", "=", "-H", "h=x", "-z", "gzip", "--tombstone", "--allow-missing-key"]
    code, out, _ = run("produce", "cli-out", file, *options)
    assert (code, out) == (0, "3 records to cli-out partition 0, from offset 0\n")
    consumer = KafkaConsumer(
        bootstrap_servers=semel_broker.bootstrap_servers, consumer_timeout_ms=20_000
    )
    try:
        consumer.assign([KafkaTopicPartition("cli-out", 0)])
        consumer.seek_to_beginning()
        records = [next(consumer) for _ in range(3)]
    finally:
        consumer.close()
    assert [(record.key, record.value) for record in records] == [
        (b"k1", b"v1"),
        (None, b"no delimiter"),
        (b"k2", None),
    ]
    assert [list(record.headers) for record in records] == [[("h", b"x")]] * 3


def test_a_line_without_the_delimiter_is_refused_with_its_number_behind_those_before_it(
    run: Run, tmp_path: Path
) -> None:
    run("topic", "create", "cli-keys", "-p", "1")
    first = lines(tmp_path / "first", "a:1", "b:2")
    second = lines(tmp_path / "second", "c:3", "no key \u20ac" + "x" * 1000, "d:4")
    code, out, err = run("produce", "cli-keys", first, second, "-K", ":")
    assert (code, out) == (1, "3 records to cli-keys partition 0, from offset 0\n")
    assert err.startswith(f"semel: {second}: line 2 has no ':' behind a key: 'no key \u20acxxx")
    assert err.endswith(
        "the lines before it are sent, and --allow-missing-key sends such a line as well,"
        " without a key\n"
    )
    assert len(err) < 500
    _, out, _ = run("consume", "cli-keys", "-e", "-f", "%k=%s ")
    assert out == "a=1 b=2 c=3 "


def test_a_topic_that_does_not_exist_is_refused_and_created_only_if_asked_for(
    run: Run, tmp_path: Path
) -> None:
    run("topic", "create", "cli-deliveries", "-p", "2")
    file = lines(tmp_path / "in", "x")
    code, out, err = run("produce", "cli-delivereis", file)
    assert (code, out, err) == (
        1,
        "",
        "semel: topic cli-delivereis does not exist; did you mean 'cli-deliveries'? "
        "--create creates it\n",
    )
    code, out, err = run("produce", "quite-another", file)
    assert err == "semel: topic quite-another does not exist; --create creates it\n"
    assert run("topic", "describe", "cli-delivereis", "quite-another")[0] == 1
    assert run("produce", "cli-delivereis", file, "--create")[0] == 0
    assert run("produce", "cli-delivereis", file, "--create")[0] == 0
    assert run("consume", "cli-delivereis", "-e")[:2] == (0, "x\nx\n")


@pytest.mark.parametrize(
    "command",
    [
        ["consume", "cli-nunbers", "-e"],
        ["topic", "describe", "cli-nunbers"],
        ["topic", "list", "cli-nunbers"],
        ["topic", "add-partitions", "cli-nunbers", "-n", "1"],
        ["topic", "alter-config", "cli-nunbers", "-c", "retention.ms=1"],
        ["topic", "delete-records", "cli-nunbers", "--before", "1"],
        ["config", "describe", "topic", "cli-nunbers"],
        ["config", "set", "topic", "cli-nunbers", "retention.ms=1"],
        ["group", "seek", "cli-group", "--to", "start", "-t", "cli-nunbers"],
        ["txn", "hanging", "cli-nunbers"],
    ],
    ids=" ".join,
)
def test_every_command_names_the_topic_that_may_have_been_meant(
    run: Run, numbers: str, command: list[str]
) -> None:
    code, out, err = run(*command)
    assert (code, out) == (1, "")
    assert err == f"semel: topic cli-nunbers does not exist; did you mean {numbers!r}?\n"


def test_standard_input_is_read_to_its_end(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("topic", "create", "cli-stdin", "-p", "1")
    reading, writing = os.pipe()
    os.write(writing, b"first\r\nsecond\nwithout end")
    os.close(writing)
    with open(reading) as stdin:  # noqa: PTH123 - a descriptor has no path.
        monkeypatch.setattr(sys, "stdin", stdin)
        code, out, _ = run("produce", "cli-stdin", "--json", "-k", "same")
    assert code == 0
    sent = [json.loads(line) for line in out.splitlines()]
    assert sum(delivery["count"] for delivery in sent) == 3
    _, out, _ = run("consume", "cli-stdin", "-e", "-f", "%o:%k:%s\\n")
    assert out == "0:same:first\n1:same:second\n2:same:without end\n"


def test_lines_without_a_key_go_to_each_partition_in_turn(run: Run, tmp_path: Path) -> None:
    run("topic", "create", "cli-turns", "-p", "3")
    for acks, offset in (("all", 0), ("0", -1)):
        file = lines(tmp_path / "in", *"abcdef")
        code, out, _ = run("produce", "cli-turns", file, "--acks", acks, "--json")
        assert code == 0
        assert [json.loads(line) for line in out.splitlines()] == [
            {"topic": "cli-turns", "partition": number, "offset": offset, "count": 2}
            for number in range(3)
        ]
    for number, expected in enumerate(["adad", "bebe", "cfcf"]):
        _, out, _ = run("consume", "cli-turns", "-p", str(number), "-n", "4", "-f", "%s")
        assert out == expected


@pytest.fixture(scope="module")
def numbers(semel_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A topic of one partition that holds the numbers from 0 to 9."""
    servers = semel_broker.bootstrap_servers
    file = lines(tmp_path_factory.mktemp("numbers") / "in", *map(str, range(10)))
    assert main(["topic", "create", "cli-numbers", "-p", "1", "-b", servers]) == 0
    assert main(["produce", "cli-numbers", file, "-b", servers]) == 0
    return "cli-numbers"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-e"], "0123456789"),
        (["-n", "3"], "012"),
        (["-e", "-o", "7"], "789"),
        (["-e", "-o", "-2"], "89"),
        (["-o", "end:end"], ""),
        (["-o", "2:5"], "234"),
        (["-o", "+8:end"], "89"),
        (["-e", "-o", "2:5"], "234"),
        (["-o", "2:5", "-n", "1"], "2"),
        (["-e", "-o", "@0"], "0123456789"),
        (["-e", "-o", "@2100-01-01"], ""),
        (["-e", "-p", "0", "--isolation", "read_uncommitted"], "0123456789"),
    ],
)
def test_consume_begins_and_ends_where_it_is_told(
    run: Run, numbers: str, options: list[str], expected: str
) -> None:
    code, out, err = run("consume", numbers, "-f", "%s", *options)
    assert (code, out, err) == (0, expected, "")


def test_consume_as_json_gives_one_object_per_record(run: Run, numbers: str) -> None:
    _, out, _ = run("consume", numbers, "--json", "-o", "3:5")
    records = [json.loads(line) for line in out.splitlines()]
    assert [(record["offset"], record["value"]) for record in records] == [(3, "3"), (4, "4")]


def test_a_group_is_moved_described_and_deleted(run: Run, numbers: str) -> None:
    code, out, _ = run("group", "seek", "cli-group", "--to", "4", "-t", numbers, "--json")
    assert code == 0
    assert json.loads(out) == [
        {"topic": numbers, "partition": 0, "prior_offset": None, "offset": 4}
    ]
    _, out, _ = run("group", "seek", "cli-group", "--to", "-1")
    assert rows(out)[-1] == [numbers, "0", "4", "9"]
    _, out, _ = run("group", "describe", "cli-group", "--json")
    (described,) = json.loads(out)
    assert (described["state"], described["lag"]) == ("Empty", 1)
    _, out, _ = run("group", "describe", "cli-group")
    assert rows(out)[-1][:5] == [numbers, "0", "9", "10", "1"]
    assert "cli-group" in [row[0] for row in rows(run("group", "list")[1])]
    assert run("group", "delete", "cli-group")[:2] == (0, "deleted group cli-group\n")
    assert run("group", "delete", "cli-group")[0] == 1
    code, _, err = run("group", "describe", "cli-group")
    assert (code, err) == (1, "semel: group cli-group does not exist\n")


def test_a_living_group_shows_its_members_and_cannot_be_moved(
    run: Run, numbers: str, semel_broker: Broker
) -> None:
    consumer = KafkaConsumer(
        numbers,
        bootstrap_servers=semel_broker.bootstrap_servers,
        group_id="cli-living",
        client_id="me",
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )
    try:
        next(consumer)
        _, out, _ = run("group", "describe", "cli-living", "--json")
        (described,) = json.loads(out)
        assert described["state"] == "Stable"
        (member,) = described["members"]
        assert member["client_id"] == "me"
        assert member["partitions"] == [[numbers, 0]]
        code, _, err = run("group", "seek", "cli-living", "--to", "start", "-t", numbers)
        assert code == 1
        assert "has members" in err
    finally:
        consumer.close()


USAGE_ERRORS: list[list[str]] = [
    ["frobnicate"],
    ["topic", "create"],
    ["topic", "create", "x", "--partition", "2", "--nonsense"],
    ["topic", "create", "x", "-c", "no-equals-sign"],
    ["topic", "create", "x", "-p", "many"],
    ["topic", "create", "x", "-p", "3.5"],
    ["topic", "list", "x", "--timeout-ms", "1.5"],
    ["topic", "list", "x*"],
    ["topic", "list", "^x("],
    ["broker", "config", "set", "1"],
    ["broker", "config", "set", "9", "log.retention.ms=1"],
    ["group", "offset-delete", "x"],
    ["group", "offset-delete", "x", "-t", "y", "-p", "one"],
    ["produce", "x", "--input", "yaml"],
    ["produce", "x", "--input", "json", "-Z"],
    ["consume", "x", "-o", "5:3"],
    ["consume", "x", "-o", "-3:-5"],
    ["consume", "x", "-g", ""],
    ["completion", "tcsh"],
    ["run", "nowhere:"],
    ["app", "pause"],
    ["serve", "--data", __file__],
    ["serve", "--ephemeral", "--metrics", "9100"],
    ["pipeline", "watch", "--metrics", "9100"],
    ["topic", "alter-config", "x", "retention.ms=1"],
    ["topic", "delete-records", "x"],
    ["topic", "delete-records", "x", "--before", "there"],
    ["config", "describe", "table", "x"],
    ["config", "set", "broker", "1"],
    ["config", "set", "broker", "1", "no-equals-sign"],
    ["config", "unset", "broker", "1", "retention.ms=1"],
    ["produce", "x", "-z", "brotli"],
    ["produce", "x", "--acks", "2"],
    ["produce", "x", "-k", "a", "-K", ":"],
    ["produce", "x", "-K", ""],
    ["produce", "x", "--allow-missing-key"],
    ["produce", "x", "--partitioner", "sideways"],
    ["consume", "x", "-o", "nowhere"],
    ["consume", "x", "-f", "%y"],
    ["consume", "x", "-f", "%s", "--json"],
    ["consume", "x", "-n", "0"],
    ["consume", "x", "-p", "one"],
    ["group", "seek", "x"],
    ["group", "seek", "x", "--to", "there"],
    ["topic", "list", "-b", "host:port"],
    ["serve", "--nonsense"],
    ["serve", "--listen"],
    ["serve", "--set", "no.such.setting=1"],
    ["serve", "--listen", "nowhere"],
]


@pytest.mark.parametrize("arguments", USAGE_ERRORS, ids=" ".join)
def test_wrong_usage_is_one_sentence_and_exit_code_2(
    run: Run, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith('{"error": ' if "--json" in arguments else "semel: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["topic", "trim"], "NAME is missing; `semel topic trim --help` tells what it takes"),
        (["topic", "trim", "x"], "--before is missing; `semel topic trim --help` tells"),
        (["topic", "trim", "x", "--before"], "--before has nothing behind it; `semel topic trim"),
        (["group", "offset-delete", "x"], "--topic is missing; `semel group offset-delete --help`"),
        (["group", "offset-delete", "x", "-t"], "--topic has nothing behind it; `semel group"),
        (["topic", "trim", "x", "--before", "@2024-13-01"], "as @2024-05-01T12:00, @-1h or @17"),
        (["consume", "x", "-o", "@soon"], "as @2024-05-01T12:00, @-1h or @1700000000000"),
        (["-b", "host:1", "topic", "list"], "-b stands before the command: options stand behind"),
        (["consume", "\udcff\udcfe"], "'\\udcff\\udcfe' is not UTF-8"),
        (
            ["topic", "alter-config", "x", "-c", "retention.ms=1", "-d", "retention.ms"],
            "retention.ms is to be set (--config) and put back (--delete)",
        ),
        (
            ["config", "set", "topic", "x", "retention.ms=1", "retention.ms=2"],
            "retention.ms is given twice: '1' and '2'",
        ),
        (
            ["topic", "create", "x", "-c", "retention.ms=1", "-c", "retention.ms=1"],
            "retention.ms is given twice",
        ),
        (["topic", "list", "-b", ""], "--bootstrap-server is empty: leave it out, or say which"),
        (["topic", "list", "--profile", ""], "--profile is empty: leave it out, or say which"),
        (["serve", "--worker", "2"], "--worker 2; did you mean '--workers'? `semel serve --help`"),
        (["serve", "--volumes", "nowhere"], "--volumes nowhere: volumes lie in a store at one of"),
        (
            ["topic", "list", "-X", "security.protocol=SSL", "-X", "ssl.ca.location=/nowhere"],
            "certificates cannot be read from /nowhere: no such file or directory",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_missing_or_mistyped_is_named(
    run: Run,
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
    assert not [*tmp_path.iterdir()]


def test_what_no_command_takes_is_named(run: Run) -> None:
    _, _, err = run("topic", "alter-config", "x", "retention.ms=1")
    assert err == "semel: retention.ms=1: nothing takes this; --help shows what does\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["topic", "create"],
        ["topic", "create", "x", "-c", "no-equals-sign"],
        ["topic", "describe", "cli-nowhere"],
        ["topic", "add-partitions", "cli-nowhere", "-n", "1"],
        ["topic", "alter-config", "cli-nowhere", "-c", "retention.ms=1"],
        ["topic", "list", "-b", "127.0.0.1:1"],
        ["produce", "cli-nowhere", "/nowhere"],
        ["produce", "x", "--acks", "2"],
        ["consume", "cli-nowhere"],
        ["consume", "x", "-o", "nowhere"],
        ["group", "describe", "cli-nobody"],
        ["group", "seek", "cli-nobody", "--to", "start"],
        ["txn", "describe", "cli-nobody"],
        ["txn", "abort", "cli-nobody"],
        ["txn", "abort"],
        ["txn", "timeline", "cli-nobody"],
        ["txn", "hanging", "cli-nowhere"],
        ["run", "nowhere:app"],
    ],
    ids=" ".join,
)
def test_whoever_asked_for_json_gets_failures_in_json(
    run: Run, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    in_text, in_json = run(*arguments), run(*arguments, "--json")
    assert in_text[0] == in_json[0] != 0
    assert (in_text[1], in_json[1]) == ("", "")
    assert f"semel: {json.loads(in_json[2])['error']}\n" == in_text[2]


_NEAR = "there is no setting '{}'; did you mean '{}'?"


def test_refusals_are_one_sentence_and_exit_code_1(
    run: Run, tmp_path: Path, semel_broker: Broker
) -> None:
    run("topic", "create", "cli-y", "-p", "1")
    missing = str(tmp_path / "missing")
    small = lines(tmp_path / "small", "x")
    failures: list[tuple[list[str], str]] = [
        (["consume", "cli-nowhere"], "topic cli-nowhere does not exist"),
        (["consume", ""], "a topic needs a name"),
        (["produce", "cli-y", missing], f"{missing}: no such file or directory"),
        (["produce", "cli-y", small, "-p", "9"], "topic cli-y has no partition 9: it has 1"),
        (
            ["topic", "describe", "cli-y", "^cli-nowhere"],
            "no topic has a name that matches '^cli-nowhere'",
        ),
        (
            ["config", "unset", "topic", "cli-y", "retenton.ms"],
            _NEAR.format("retenton.ms", "retention.ms"),
        ),
        (["topic", "alter-config", "cli-y", "-d", "nope.nope"], "there is no setting 'nope.nope'"),
        (
            ["config", "unset", "broker", "all", "log.retenton.ms"],
            _NEAR.format("log.retenton.ms", "log.retention.ms"),
        ),
        (
            ["group", "offset-delete", "nobody", "-t", "cli-y"],
            "group nobody has no offsets in cli-y",
        ),
        (["app", "pause", "nobody"], "no application nobody:app runs on this machine"),
        (
            ["topic", "list", "-X", "security.protocol=SSL", "--timeout-ms", "5000"],
            f"127.0.0.1:{semel_broker.port} cannot be reached: the connection was closed;"
            " does it speak TLS there?",
        ),
        (
            ["topic", "list", "-b", "127.0.0.1:1"],
            "127.0.0.1:1 cannot be reached: connection refused",
        ),
    ]
    for arguments, sentence in failures:
        assert run(*arguments) == (1, "", f"semel: {sentence}\n")


def test_a_line_that_is_too_long_for_its_topic_is_refused(run: Run, tmp_path: Path) -> None:
    run("topic", "create", "cli-long", "-p", "1", "-c", "max.message.bytes=1000")
    code, out, err = run("produce", "cli-long", lines(tmp_path / "in", "x" * 2_000))
    assert (code, out) == (1, "")
    assert re.fullmatch(
        r"semel: cli-long-0: a batch of 20\d\d bytes is larger than the topic takes "
        r"\(its setting max\.message\.bytes\)\n",
        err,
    )


@pytest.mark.parametrize(
    "command",
    [[], ["topic"], ["topic", "create"], ["produce"], ["consume"], ["group", "seek"], ["txn"]],
)
def test_every_command_has_help(run: Run, command: list[str]) -> None:
    code, out, _ = run(*command, "--help")
    assert code == 0
    assert "Usage: semel" in out


def test_help_shows_a_format_as_it_is_written(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = run("consume", "--help")
    assert "%t topic" in out
    assert "%%" not in out


def test_help_and_version_are_told_without_dashes_as_well(run: Run) -> None:
    assert run("help", "topic", "create") == run("topic", "create", "--help")
    assert run("version") == run("--version")


def test_the_version_is_told(run: Run) -> None:
    from semel import __version__

    assert run("--version") == (0, f"{__version__}\n", "")


def test_all_settings_are_listed_without_a_broker(run: Run) -> None:
    code, out, _ = run("config", "list")
    assert code == 0
    header, *listed = rows(out)
    assert header == ["SETTING", "DEFAULT", "UNIT", "VALUES", "CHANGES", "MEANING"]
    by_name = {row[0]: row for row in listed}
    assert by_name.keys() == about_settings().keys()
    assert by_name["log.retention.ms"][1:3] == ["604800000", "ms"]
    assert json.loads(run("config", "list", "topic", "--json")[1])[0] == {
        "name": "cleanup.policy",
        "default": "delete",
        "unit": "",
        "values": "delete, compact",
        "is_fixed": False,
        "about": "Whether old records are deleted, or all but the newest of each key.",
        "broker_setting": "log.cleanup.policy",
    }
