"""Groups on the command line: read as a member, moved in one partition; topics by pattern."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import semel
from semel.cli.printout import Printout, print_for_group
from semel.testing import Broker
from semel.types import TopicPartition
from support.command_line import Run, eventually, rows


@pytest.fixture(scope="module")
def shops(semel_broker: Broker) -> tuple[str, str]:
    """Two topics of two partitions, with 0 to 4 and 5 to 9 in each partition."""
    names = "shop-one", "shop-two"
    with (
        semel.Admin(semel_broker.bootstrap_servers) as admin,
        semel.Producer(semel_broker.bootstrap_servers) as producer,
    ):
        admin.create_topics(names, partitions=2)
        for name in names:
            for number in range(10):
                producer.send(name, str(number), partition=number // 5)
    return names


def printed(out: str) -> list[str]:
    return sorted(out.split())


def test_a_group_goes_on_where_it_was(run: Run, shops: tuple[str, str]) -> None:
    one, _ = shops
    code, out, err = run("consume", one, "-g", "cli-reading", "-n", "4")
    assert (code, err, len(printed(out))) == (0, "", 4)
    code, rest, err = run("consume", one, "-g", "cli-reading", "-e")
    assert (code, err) == (0, "")
    assert printed(out + rest) == [str(number) for number in range(10)]
    assert run("consume", one, "-g", "cli-reading", "-e") == (0, "", "")
    _, out, _ = run("group", "describe", "cli-reading", "--json")
    assert json.loads(out)[0]["lag"] == 0


def test_what_was_printed_before_an_interruption_is_not_printed_again(
    run: Run, shops: tuple[str, str], semel_broker: Broker
) -> None:
    one, _ = shops
    command = [sys.executable, "-m", "semel", "consume", one, "-g", "cli-interrupted"]
    command += ["-b", semel_broker.bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        seen = [process.stdout.readline() for _ in range(10)]
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    assert (process.returncode, rest) == (130, "")
    assert sorted(seen) == [f"{number}\n" for number in range(10)]
    assert run("consume", one, "-g", "cli-interrupted", "-e") == (0, "", "")


def test_a_member_that_is_terminated_leaves_its_group(
    run: Run, shops: tuple[str, str], semel_broker: Broker
) -> None:
    command = [sys.executable, "-m", "semel", "consume", shops[0], "-g", "cli-terminated"]
    command += ["-b", semel_broker.bootstrap_servers]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for _ in range(10):
            process.stdout.readline()
        process.terminate()
        rest, err = process.communicate(timeout=60)
    assert (process.returncode, rest, err) == (143, "", "")
    _, out, _ = run("group", "describe", "cli-terminated", "--json")
    (group,) = json.loads(out)
    assert (group["state"], group["members"], group["lag"]) == ("Empty", [], 0)


def test_a_group_that_reads_from_the_end_has_seen_what_was_there(
    run: Run, shops: tuple[str, str]
) -> None:
    assert run("consume", shops[0], "-g", "cli-from-end", "-e", "-o", "end") == (0, "", "")
    _, out, _ = run("group", "describe", "cli-from-end", "--json")
    assert [each["offset"] for each in json.loads(out)[0]["partitions"]] == [5, 5]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-p", "0"], "--group and --partitions exclude each other: a group has its own say"),
        (
            ["-o", "7"],
            "--offset is 7: with --group it is start or end, where the group has no offset; "
            "`semel group seek` moves a group",
        ),
    ],
)
def test_what_a_group_decides_cannot_be_told(run: Run, options: list[str], sentence: str) -> None:
    assert run("consume", "x", "-g", "g", *options) == (2, "", f"semel: {sentence}\n")


def test_a_group_is_moved_in_one_partition_and_forgets(run: Run, shops: tuple[str, str]) -> None:
    one, two = shops
    seek = ["group", "seek", "cli-moved"]
    assert run(*seek, "--to", "end", "-t", one, "-t", two)[0] == 0
    _, out, _ = run(*seek, "--to", "1", "-t", one, "-p", "1", "--json")
    assert json.loads(out) == [{"topic": one, "partition": 1, "prior_offset": 5, "offset": 1}]
    _, out, _ = run(*seek, "--to", "2", "-p", "0")
    assert rows(out)[1:] == [[one, "0", "5", "2"], [two, "0", "5", "2"]]
    code, out, err = run(*seek, "--to", "2", "-p", "7")
    assert (code, out) == (2, "")
    assert "cli-moved has no offsets in partitions 7" in err
    forget = ["group", "offset-delete", "cli-moved"]
    _, out, _ = run(*forget, "-t", one, "-p", "1", "--json")
    assert json.loads(out) == [{"topic": one, "partition": 1, "prior_offset": 1}]
    assert rows(run(*forget, "-t", "^shop-")[1])[1:] == [
        [one, "0", "2"],
        [two, "0", "2"],
        [two, "1", "5"],
    ]
    code, _, err = run(*forget, "-t", one)
    assert (code, err) == (1, f"semel: group cli-moved has no offsets in {one}\n")


def test_a_group_that_had_no_offsets_is_told_when_it_is_moved(
    run: Run, shops: tuple[str, str]
) -> None:
    first, _ = shops
    code, _, err = run("group", "seek", "cli-seeking", "--topic", first, "--to", "start")
    assert code == 0
    assert err.startswith("semel: group cli-seeking had no offsets, and has these now")
    code, _, err = run("group", "seek", "cli-seekng", "--topic", first, "--to", "start")
    assert code == 0
    assert "did you mean 'cli-seeking'?" in err
    assert run("group", "seek", "cli-seeking", "--to", "end")[2] == ""


def test_a_group_is_not_moved_to_an_offset_that_one_of_its_partitions_does_not_have(
    run: Run, shops: tuple[str, str], tmp_path: Path
) -> None:
    one, _ = shops
    seek = ["group", "seek", "cli-beyond"]
    told = f"offset 6 is not there yet: {one}-0 ends at 5, {one}-1 ends at 5; nothing was moved"
    assert run(*seek, "--to", "6", "-t", one) == (1, "", f"semel: {told}\n")
    assert run("group", "describe", "cli-beyond")[0] == 1
    run("topic", "create", "cli-late", "-p", "2")
    (tmp_path / "in").write_text("a\nb\nc\nd\n")
    run("produce", "cli-late", str(tmp_path / "in"))
    run("topic", "delete-records", "cli-late", "--before", "1", "-p", "1")
    told = "offset 0 is not there any more: cli-late-1 begins at 1; nothing was moved"
    assert run(*seek, "--to", "0", "-t", "cli-late") == (1, "", f"semel: {told}\n")
    assert rows(run(*seek, "--to", "2", "-t", "cli-late")[1])[1:] == [
        ["cli-late", "0", "-", "2"],
        ["cli-late", "1", "-", "2"],
    ]
    assert rows(run(*seek, "--to", "-9", "-p", "1")[1])[-1] == ["cli-late", "1", "2", "1"]


def test_a_group_is_not_made_of_what_looks_like_a_pattern(run: Run, shops: tuple[str, str]) -> None:
    seek = ["group", "seek", "^cli-g", "--to", "end", "-t", shops[0]]
    assert run(*seek) == (
        2,
        "",
        "semel: there is no group '^cli-g', and a group is not named by a pattern here\n",
    )
    assert run("group", "describe", "^cli-g")[0] == 1
    assert run("consume", shops[0], "-g", "^cli-g", "-e")[0] == 0
    assert run(*seek)[0] == 0


def test_what_a_pattern_matches_is_told(run: Run, shops: tuple[str, str], tmp_path: Path) -> None:
    _, _, err = run("group", "seek", "cli-told", "--to", "end", "-t", "^shop-")
    assert "semel: '^shop-' matches shop-one, shop-two\n" in err
    run("topic", "create", "cli-told-a", "cli-told-b", "cli-told-c", "-p", "1")
    (tmp_path / "in").write_text("a\n")
    for name in "abc":
        run("produce", f"cli-told-{name}", str(tmp_path / "in"))
    code, out, err = run("topic", "delete-records", "^cli-told-[ab]", "--before", "end")
    assert (code, err) == (0, "semel: '^cli-told-[ab]' matches cli-told-a, cli-told-b\n")
    assert [row[0] for row in rows(out)[1:]] == ["cli-told-a", "cli-told-b"]
    assert run("topic", "delete-records", "cli-told-c", "--before", "end")[2] == ""
    for command in (["topic", "delete-records"], ["group", "seek"]):
        assert "begins with ^" in " ".join(run(*command, "--help")[1].split())


def test_topics_are_named_by_a_pattern(run: Run, shops: tuple[str, str]) -> None:
    _, out, _ = run("topic", "list", "^shop-.*o", "--json")
    assert [each["name"] for each in json.loads(out)] == list(shops)
    assert printed(run("consume", "^shop-", "-e", "-f", "%t ")[1]) == sorted(shops * 10)
    code, out, _ = run("consume", "^shop-one|^shop-two", "-g", "cli-pattern", "-e", "-f", "%t ")
    assert (code, printed(out)) == (0, sorted(shops * 10))
    assert run("topic", "describe", "^shop-o", "--json")[0] == 0
    for command in (["topic", "delete"], ["topic", "list"], ["consume"]):
        code, out, err = run(*command, "^shop-x")
        assert (code, out, err) == (
            1,
            "",
            "semel: no topic has a name that matches '^shop-x'\n",
        )
        assert run(*command, "^shop-(") == (
            2,
            "",
            "semel: '^shop-(' is not a regular expression: missing ), unterminated subpattern at"
            " position 6\n",
        )
    assert run("topic", "list", "shop-*") == (
        2,
        "",
        "semel: 'shop-*' is not a name; a pattern begins with ^, as '^orders-.*'\n",
    )


def test_topics_that_match_are_deleted_and_no_others(run: Run) -> None:
    run("topic", "create", "cli-tmp-a", "cli-tmp-b", "cli-keep-tmp")
    code, out, _ = run("topic", "delete", "^cli-tmp-")
    assert code == 0
    assert sorted(out.splitlines()) == ["deleted topic cli-tmp-a", "deleted topic cli-tmp-b"]
    code, out, err = run("topic", "delete", "cli-kept-tmp")
    assert (code, out) == (1, "")
    assert err == "semel: there is no topic 'cli-kept-tmp'; did you mean 'cli-keep-tmp'?\n"
    assert rows(run("topic", "list", "^cli-.*tmp")[1])[1][0] == "cli-keep-tmp"


def test_a_topic_is_trimmed(run: Run, tmp_path: Path) -> None:
    run("topic", "create", "cli-trim", "-p", "1")
    (tmp_path / "in").write_text("a\nb\nc\n")
    run("produce", "cli-trim", str(tmp_path / "in"))
    assert rows(run("topic", "trim", "cli-trim", "--before", "2")[1])[-1] == [
        "cli-trim",
        "0",
        "0",
        "2",
    ]


def test_brokers_and_their_cluster_are_told(run: Run, semel_broker: Broker) -> None:
    _, out, _ = run("cluster", "info", "--json")
    told = json.loads(out)
    (broker,) = told["brokers"]
    assert (broker["host"], broker["port"]) == ("127.0.0.1", semel_broker.port)
    assert told["controller"] == broker["broker"]
    assert rows(run("broker", "list")[1])[1] == [
        str(broker["broker"]),
        "127.0.0.1",
        str(semel_broker.port),
        "yes",
    ]
    assert ["cluster", told["cluster"]] in rows(run("cluster", "info")[1])
    setting, broker_id = "message.max.bytes", str(broker["broker"])
    assert run("broker", "config", "set", broker_id, f"{setting}=1048577")[0] == 0
    eventually(
        run, "broker", "config", "list", broker_id, setting, holds=lambda said: "1048577" in said
    )
    assert run("broker", "config", "unset", broker_id, setting)[0] == 0
    assert setting in run("broker", "config", "list")[1]
    assert run("broker", "config", "set", "9", f"{setting}=2000") == (
        2,
        "",
        f"semel: there is no broker '9': there are {broker_id}, and `all`\n",
    )


def test_a_member_commits_only_what_lies_before_its_stop(
    run: Run, semel_broker: Broker, capfd: pytest.CaptureFixture[str]
) -> None:
    """Records that come while it reads belong to the next run."""
    name = "cli-stop"
    with semel.Admin(semel_broker.bootstrap_servers) as admin:
        admin.create_topics(name, partitions=1)
        with semel.Producer(semel_broker.bootstrap_servers) as producer:
            for number in range(3):
                producer.send(name, str(number))
        place = TopicPartition(name, 0)

        async def nothing() -> None: ...

        async def read() -> None:
            async with semel.AsyncConsumer(semel_broker.bootstrap_servers, "cli-stops") as consumer:
                await consumer.subscribe(name)
                printout = Printout(lambda record: record.value or b"", {place: 2}, None)
                await print_for_group(consumer, {place: 2}, printout, nothing)

        asyncio.run(read())
        assert capfd.readouterr().out == "01"
        assert admin.committed_offsets("cli-stops") == {place: 2}
        assert run("consume", name, "-g", "cli-stops", "-e")[1] == "2\n"
