"""`semel run`: what it shows, what it says, and how it ends."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from semel.app.progress import Counts, ListenerState
from semel.cli.live import Rates, lines_of, sentence, table
from semel.cli.run import load
from semel.testing import Broker
from semel.types import TopicPartition
from support.app_topics import Topics, numbers, topics_for
from support.command_line import Run, rows
from support.topics import fill, name_for, values

PROGRAM = """
import sys, threading
from semel import App, Outbox, Record

app = App()

@app.listener({source!r}, group={group!r}, retries=0)
@app.transactional
def copy(record: Record, out: Outbox) -> None:
    if record.value == b"bad":
        raise ValueError("no good")
    if record.value == b"stuck":
        sys.stderr.write("stuck\\n")
        sys.stderr.flush()
        threading.Event().wait()
    out.send({target!r}, value=record.value)
"""


@pytest.fixture
def topics(semel_broker: Broker, request: pytest.FixtureRequest) -> Topics:
    return topics_for(semel_broker.bootstrap_servers, name_for(request))


@pytest.fixture
def folder(tmp_path: Path, topics: Topics) -> Path:
    program = PROGRAM.format(source=topics.source, target=topics.target, group=topics.group)
    (tmp_path / "shop.py").write_text(program)
    return tmp_path


def started(folder: Path, topics: Topics, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "semel", "run", "shop:app", "-b", topics.servers, *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_line_of_json_tells_how_each_listener_gets_on(folder: Path, topics: Topics) -> None:
    fill(topics.servers, topics.source, numbers(50))
    with started(folder, topics, "--json") as process:
        assert process.stdout is not None
        for line in process.stdout:
            (told,) = json.loads(line)["listeners"]
            if told["records"] == 50 and told["state"] == "idle" and told["lag"] == 0:
                break
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
        assert process.returncode == 0
    assert told["listener"] == "copy"
    assert told["partitions"] == [f"{topics.source}-{number}" for number in range(2)]
    assert told["transactions_committed"] >= 1
    (last,) = json.loads(rest.splitlines()[-1])["listeners"]
    assert (last["state"], last["records"]) == ("stopped", 50)


def test_lines_for_a_pipe_change_only_with_what_they_tell(folder: Path, topics: Topics) -> None:
    fill(topics.servers, topics.source, numbers(50))
    with started(folder, topics) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if re.match(r"copy: idle, 50 records \(0/s\), lag 0, ", line):
                break
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
        assert process.returncode == 0
    assert len(set(lines)) == len(lines)
    assert rest.splitlines()[-1].startswith("copy: stopped, 50 records")


def test_a_second_signal_ends_it_at_once(folder: Path, topics: Topics) -> None:
    fill(topics.servers, topics.source, [b"stuck"])
    with started(folder, topics, "--quiet") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "stuck\n"
        process.send_signal(signal.SIGINT)
        assert "once more ends it at once" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (out, err, process.returncode) == ("", "", 130)
    assert values(topics.servers, topics.target) == []


def test_a_failure_shows_the_functions_own_trace_and_one_sentence(
    folder: Path, topics: Topics
) -> None:
    fill(topics.servers, topics.source, [b"good", b"bad"])
    with started(folder, topics, "--quiet") as process:
        out, err = process.communicate(timeout=60)
        assert (out, process.returncode) == ("", 1)
    lines = err.splitlines()
    assert lines[0].startswith("Traceback")
    assert "shop.py" in lines[1]
    assert lines[-2] == "ValueError: no good"
    assert lines[-1] == (
        f"semel: listener copy: the record at {topics.source}-0 offset 1 failed once, "
        "and there is no dead-letter topic: ValueError: no good"
    )
    assert "semel/app" not in err
    assert values(topics.servers, topics.target) == [b"good"]


LAYING_ASIDE = """
{setup}
from semel import App, Record

app = App()

@app.listener({source!r}, group={group!r}, retries=1, backoff_ms=1, dead_letters={dead!r})
def refuse(record: Record) -> None:
    if record.value == b"bad":
        raise ValueError("no good")
"""


@pytest.fixture
def laying_aside(tmp_path: Path, topics: Topics) -> Path:
    names = {"source": topics.source, "group": topics.group, "dead": topics.dead}
    (tmp_path / "shop.py").write_text(LAYING_ASIDE.format(setup="", **names))
    own = "import logging, sys; logging.basicConfig(stream=sys.stderr, format='mine %(message)s')"
    (tmp_path / "logging_shop.py").write_text(LAYING_ASIDE.format(setup=own, **names))
    fill(topics.servers, topics.source, [b"good", b"bad"])
    return tmp_path


def told_of(topics: Topics) -> list[str]:
    subject = f"listener refuse: the record at {topics.source}-0 offset 1 failed"
    return [
        f"{subject}, attempt 1 of 2, and is tried again: ValueError: no good",
        f"{subject} 2 times and was laid aside in {topics.dead}: ValueError: no good",
    ]


@pytest.mark.parametrize("options", [(), ("--quiet",)], ids=["lines", "quiet"])
def test_retries_and_dead_letters_are_told_on_standard_error(
    laying_aside: Path, topics: Topics, options: tuple[str, ...]
) -> None:
    with started(laying_aside, topics, *options) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert lines == [f"semel: {line}\n" for line in told_of(topics)]
    assert err == "semel: finishing what is in work; once more ends it at once\n"
    if not options:
        assert "1 retry, 1 dead letter, " in out.splitlines()[-1]
    assert process.returncode == 0


def test_an_application_with_a_log_of_its_own_has_them_there(
    laying_aside: Path, topics: Topics
) -> None:
    command = [sys.executable, "-m", "semel", "run", "logging_shop:app", "-b", topics.servers]
    with subprocess.Popen(
        command, cwd=laying_aside, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert lines == [f"mine {line}\n" for line in told_of(topics)]


def test_whoever_asked_for_json_is_told_of_everything_in_json(
    laying_aside: Path, topics: Topics
) -> None:
    with started(laying_aside, topics, "--json") as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    retry, letter, end = (json.loads(line) for line in [*lines, *err.splitlines()])
    place = {"topic": topics.source, "partition": 0, "offset": 1}
    why = {"exception": "ValueError", "reason": "no good"}
    messages = told_of(topics)
    assert retry == {
        "level": "warning",
        "message": messages[0],
        "listener": "refuse",
        "event": "retry",
        **place,
        "attempt": 1,
        **why,
    }
    assert letter == {
        "level": "error",
        "message": messages[1],
        "listener": "refuse",
        "event": "dead_letter",
        **place,
        "attempt": 2,
        **why,
    }
    assert end["level"] == "info"


def test_on_a_terminal_they_are_told_above_the_table(laying_aside: Path, topics: Topics) -> None:
    reading, writing = os.openpty()
    command = [sys.executable, "-m", "semel", "run", "shop:app", "-b", topics.servers]
    with subprocess.Popen(
        command,
        cwd=laying_aside,
        env=os.environ | {"COLUMNS": "300", "TERM": "xterm"},
        stdout=writing,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(writing)
        shown = b""
        try:
            while b"laid aside" not in shown or b"idle" not in shown.split(b"laid aside")[-1]:
                shown += os.read(reading, 65_536)
        finally:
            process.send_signal(signal.SIGTERM)
            # What nobody reads would keep it from ending.
            with contextlib.suppress(OSError):
                while os.read(reading, 65_536):
                    pass
            os.close(reading)
            process.communicate(timeout=60)
    for line in told_of(topics):
        assert line in shown.decode()


def test_a_failure_in_json_has_its_trace_in_it(folder: Path, topics: Topics) -> None:
    fill(topics.servers, topics.source, [b"bad"])
    with started(folder, topics, "--json") as process:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 1
    (told,) = (json.loads(line) for line in err.splitlines())
    assert told["error"].startswith("listener copy: the record at ")
    assert told["traceback"].startswith("Traceback")
    assert told["traceback"].endswith("ValueError: no good\n")


def test_an_application_that_is_called_app_needs_no_more_than_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "billing_alone.py").write_text("from semel import App\napp = App()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert load("billing_alone") is load("billing_alone:app")


def test_what_cannot_be_found_is_said_in_a_sentence(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    code, out, err = run("run", "nowhere:app")
    assert (code, out, err) == (2, "", f"semel: there is no module nowhere in {tmp_path}\n")


def test_a_module_that_does_not_import_shows_why(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "shop_in_pieces.py").write_text("1 / 0\n")
    code, out, err = run("run", "shop_in_pieces:app")
    assert (code, out) == (1, "")
    assert "shop_in_pieces.py" in err
    assert err.splitlines()[-1] == (
        "semel: shop_in_pieces:app cannot be imported: ZeroDivisionError: division by zero"
    )
    assert "cli/run.py" not in err


def test_json_and_quiet_exclude_each_other(run: Run) -> None:
    assert run("run", "shop:app", "--json", "--quiet")[0] == 2


# The view itself


def counts(records: int) -> dict[str, Counts]:
    place = TopicPartition("orders", 1)
    return {
        "bill": Counts(records, 3, 1, 2, 1, ListenerState.RESTING, 40, frozenset({place}), "away")
    }


def test_rates_are_those_of_the_last_second() -> None:
    rates = Rates()
    assert rates.look(counts(0), 10.0) == {"bill": 0}
    assert rates.look(counts(50), 10.5) == {"bill": 100}
    assert rates.look(counts(100), 11.0) == {"bill": 100}
    assert rates.look(counts(100), 12.0) == {"bill": 0}


def test_the_table_shows_what_a_sentence_says() -> None:
    from rich.console import Console

    lines = lines_of(counts(1234), {"bill": 99})
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(table(lines))
    shown = console.export_text()
    for text in ("bill", "backing off", "99", "1,234", "40", "orders-1", "away"):
        assert text in shown
    assert sentence(lines[0]) == (
        "bill: backing off, 1234 records (99/s), lag 40, 3 committed, 1 aborted, 2 retries, "
        "1 dead letter, 1 partition, away"
    )


def served_at(process: "subprocess.Popen[str]") -> str:
    """Where its metrics are, as it says first."""
    assert process.stderr is not None
    found = re.fullmatch(r"semel: metrics are at (http://\S+)/metrics\n", process.stderr.readline())
    assert found is not None
    return found[1]


def page(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_listener_is_watched_paused_and_resumed_from_outside(
    folder: Path, topics: Topics, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    fill(topics.servers, topics.source, numbers(20))
    with started(folder, topics, "--metrics", "127.0.0.1:0") as process:
        address = served_at(process)
        assert process.stdout is not None
        lines = iter(process.stdout)
        assert any(line.startswith("copy: idle, 20 records (0/s), lag 0") for line in lines)
        assert page(f"{address}/readyz") == page(f"{address}/healthz") == (200, "ok\n")
        _, metrics = page(f"{address}/metrics")
        assert 'semel_app_records_total{listener="copy"} 20.0\n' in metrics
        assert 'semel_app_paused{listener="copy"} 0.0\n' in metrics

        code, out, _ = run("app", "pause", "shop", "copy")
        assert (code, rows(out)[1]) == (0, ["shop:app", str(process.pid), "copy"])
        assert any(line.startswith("copy: paused, 20 records") for line in lines)
        fill(topics.servers, topics.source, numbers(5))
        assert any(line.startswith("copy: paused, 20 records (0/s), lag 5") for line in lines)
        assert 'semel_app_paused{listener="copy"} 1.0\n' in page(f"{address}/metrics")[1]
        (listed,) = json.loads(run("app", "list", "--json")[1])
        assert (listed["application"], listed["process_id"]) == ("shop:app", process.pid)
        assert listed["listeners"][0]["state"] == "paused"
        assert run("app", "pause", "shop", "copi") == (
            2,
            "",
            "semel: there is no listener 'copi'; did you mean 'copy'?\n",
        )
        assert rows(run("app", "resume", "shop:app")[1])[1] == ["shop:app", str(process.pid), "-"]
        assert any(line.startswith("copy: idle, 25 records") for line in lines)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert json.loads(run("app", "list", "--json")[1]) == []
    assert run("app", "pause", "shop") == (
        1,
        "",
        "semel: no application shop:app runs on this machine\n",
    )


def test_a_process_that_was_killed_is_not_listed(
    folder: Path, topics: Topics, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    with started(folder, topics) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert json.loads(run("app", "list", "--json")[1])[0]["process_id"] == process.pid
        process.kill()
        process.communicate()
    assert run("app", "list", "--json") == (0, "[]\n", "")
    assert list((folder / "semel").iterdir()) == []


def test_a_folder_that_others_may_write_to_is_refused(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "semel").mkdir(mode=0o700)
    (tmp_path / "semel").chmod(0o777)
    code, out, err = run("app", "list")
    assert (code, out) == (2, "")
    assert err.endswith("is open to others: it has to be yours, with mode 700\n")


def test_metrics_that_cannot_be_served_let_nothing_begin(folder: Path, topics: Topics) -> None:
    fill(topics.servers, topics.source, numbers(1))
    with started(folder, topics, "--metrics", "9100") as process:
        out, err = process.communicate(timeout=60)
    assert (out, process.returncode) == ("", 2)
    assert err == "semel: --metrics is '9100': give it as HOST:PORT, such as 127.0.0.1:9100\n"
    assert values(topics.servers, topics.target) == []
