"""`semel user` against a broker that is reached, and in the folder of one that has stopped."""

import getpass
import io
import json
import sys
from pathlib import Path

import pytest

from semel.cli.user import PASSWORD_VARIABLE
from semel.journal.file.lane_folders import add_lanes
from semel.testing import Broker
from support.command_line import Run, rows

BOTH = "SCRAM-SHA-256, SCRAM-SHA-512"
SETTINGS = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}


@pytest.fixture(autouse=True)
def no_password_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def users(run: Run, *where: str) -> set[str]:
    code, out, _ = run("user", "list", "--json", *where)
    assert code == 0
    return {each["user"] for each in json.loads(out)}


def test_a_user_is_added_listed_and_deleted(run: Run, tmp_path: Path) -> None:
    (file := tmp_path / "password").write_text("tulip\n")
    assert run("user", "add", "lister", "--password-file", str(file)) == (
        0,
        "added user lister\n",
        "",
    )
    listed = rows(run("user", "list")[1])
    assert listed[0] == ["USER", "MECHANISMS"]
    assert ["lister", *BOTH.split()] in listed
    assert run("user", "delete", "lister") == (0, "deleted user lister\n", "")
    assert "lister" not in users(run)
    assert run("user", "delete", "lister") == (1, "", "semel: there is no user 'lister'\n")


def test_programs_are_told_of_users(run: Run, tmp_path: Path) -> None:
    (file := tmp_path / "password").write_text("tulip\n")
    work = ("--iterations", "4096", "--json")
    code, out, _ = run("user", "add", "told", "--password-file", str(file), *work)
    assert (code, json.loads(out)) == (0, [{"user": "told", "error": None}])
    listed = json.loads(run("user", "list", "--json")[1])
    told = {"user": "told", "mechanisms": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}}
    assert told in listed
    code, out, _ = run("user", "delete", "told", "--json")
    assert (code, json.loads(out)) == (0, [{"user": "told", "error": None}])


def test_the_first_user_of_a_stopped_folder_signs_in_with_each_password_given(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    in_folder = ("--data", str(folder))
    (file := tmp_path / "password").write_text("from a file\r\n")
    asked: list[str] = []

    def from_terminal(question: str) -> str:
        asked.append(question)
        return "from a terminal"

    monkeypatch.setattr(getpass, "getpass", from_terminal)
    mistyped = run("user", "add", "filed", "--password-file", str(file), *in_folder)
    refusal = f"semel: {folder} is no data folder: there is no such folder; --new begins one there"
    assert mistyped == (2, "", refusal + "\n")
    assert not folder.exists()
    assert run("user", "add", "filed", "--password-file", str(file), *in_folder, "--new")[0] == 0
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdin", io.StringIO("from a pipe\n"))
        assert run("user", "add", "piped", "--password-file", "-", *in_folder)[0] == 0
    with monkeypatch.context() as patched:
        patched.setenv(PASSWORD_VARIABLE, "from the environment")
        assert run("user", "add", "exported", *in_folder)[0] == 0
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdin", Terminal())
        assert run("user", "add", "typed", *in_folder)[0] == 0
    assert asked == ["password of typed: ", "once more: "]

    passwords = {
        "filed": "from a file",
        "piped": "from a pipe",
        "exported": "from the environment",
        "typed": "from a terminal",
    }
    with Broker(data=folder, settings=SETTINGS) as broker:
        code, _, err = run("user", "add", "late", "--password-file", str(file), *in_folder)
        assert (code, err) == (1, f"semel: another broker is using {folder}\n")
        for name, password in passwords.items():
            monkeypatch.setenv("PASSWORD_OF_TEST", password)
            signed_in = (
                *("-b", broker.bootstrap_servers, "-X", "security.protocol=SASL_PLAINTEXT"),
                *("-X", "sasl.mechanism=SCRAM-SHA-256", "-X", f"sasl.username={name}"),
                *("-X", "sasl.password=${env:PASSWORD_OF_TEST}"),
            )
            assert users(run, *signed_in) == set(passwords)
        monkeypatch.setenv("PASSWORD_OF_TEST", "another one")
        code, _, err = run("user", "list", *signed_in)
        assert code == 1
        assert "these credentials are not accepted" in err


def test_mistakes_are_told_and_make_nobody(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty := tmp_path / "empty").write_text("\n")
    missing = tmp_path / "missing"
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    def refused(*arguments: str) -> str:
        code, out, err = run("user", "add", "nobody", *arguments)
        assert (code, out) == (2, "")
        return err

    assert "a password is needed: --password-file, SEMEL_USER_PASSWORD" in refused()
    assert refused("--password-file", str(empty)) == "semel: the password is empty\n"
    assert refused("--password-file", str(missing)).startswith(f"semel: {missing}: no such file")
    assert refused("--new") == "semel: --new makes the folder of --data DIR, which is missing\n"
    without = ("--password-file", str(empty.with_name("word")), "--data", str(tmp_path))
    empty.with_name("word").write_text("tulip")
    assert "it has neither format nor segments; --new begins one there" in refused(*without)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["empty", "word"]
    assert refused("--iterations", "4095") == "semel: --iterations: between 4096 and 16384\n"
    typed = iter(["tulip", "tulps"])
    monkeypatch.setattr(getpass, "getpass", lambda _: next(typed))
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert refused() == "semel: these are two passwords\n"
    assert "nobody" not in users(run)

    monkeypatch.setenv(PASSWORD_VARIABLE, "tulip")
    assert run("user", "add", "") == (1, "", "semel: a user needs a name\n")


def test_a_folder_with_several_lanes_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_lanes(tmp_path, 2)
    monkeypatch.setenv(PASSWORD_VARIABLE, "tulip")
    code, _, err = run("user", "add", "ana", "--data", str(tmp_path))
    assert code == 2
    assert err.startswith(f"semel: {tmp_path} has several lanes: name the user in the file of")
