"""`semel quota`: set, shown and removed on a broker, for all whom a quota can be for."""

import json

import pytest

from support.command_line import Run, rows


def shown(run: Run, *arguments: str) -> list[list[str]]:
    code, out, _ = run("quota", "list", *arguments)
    assert code == 0
    return rows(out)[1:]


def test_quotas_are_set_listed_and_removed(run: Run) -> None:
    ann = ["--user", "ann", "--client-defaults"]
    assert run("quota", "set", "producer_byte_rate=1048576", "request_percentage=2.5", *ann) == (
        0,
        "changed quotas of users/ann/clients/<default>\n",
        "",
    )
    everywhere = ["--ip-defaults"]
    assert run("quota", "set", "connection_creation_rate=20", *everywhere)[0] == 0
    assert shown(run) == [
        ["-", "-", "<default>", "connection_creation_rate", "20"],
        ["ann", "<default>", "-", "producer_byte_rate", "1048576"],
        ["ann", "<default>", "-", "request_percentage", "2.5"],
    ]
    assert shown(run, "--user", "ann") == []
    assert len(shown(run, *ann)) == 2
    _, out, _ = run("quota", "list", "--json", *everywhere)
    assert json.loads(out) == [
        {
            "user": None,
            "client_id": None,
            "ip": "<default>",
            "quota": "connection_creation_rate",
            "value": 20.0,
        }
    ]
    assert run("quota", "remove", "request_percentage", *ann)[0] == 0
    assert [row[3] for row in shown(run, *ann)] == ["producer_byte_rate"]
    for whom in (ann, everywhere):
        assert run("quota", "remove", *whom)[0] == 0
    assert shown(run) == []


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["set", "producer_byte_rate=1"], 2, "say for whom: --user, --client-id or --ip"),
        (["set", "producer_byte_rate=x", "--user", "u"], 2, "producer_byte_rate=x: must be a numb"),
        (["set", "rate=1", "--user", "u"], 1, "'rate' is no quota of users/u: there are consumer"),
        (
            ["set", "request_percentage=1", "--ip", "10.0.0.1"],
            1,
            "of ips/10.0.0.1: there is connection_creation_rate",
        ),
        (
            ["set", "producer_byte_rate=1", "producer_byte_rate=2", "--user", "u"],
            2,
            "producer_byte_rate is given twice: '1' and '2'",
        ),
        (["set", "producer_byte_rate=0", "--user", "u"], 1, "a quota is greater than 0"),
        (["set", "producer_byte_rate=1", "--user", "u", "--user-defaults"], 2, "choose one"),
        (["set", "connection_creation_rate=1", "--ip", "host"], 1, "'host' is no IP address"),
        (["remove", "producer_byte_rate=1", "--user", "u"], 2, "name the quota alone"),
        (["remove", "producer_byte_rate", "--user", "u"], 1, "users/u has no producer_byte_rate"),
        (["remove", "--client-id", "c"], 1, "clients/c has no quotas"),
        (["list", "--user", ""], 2, "--user is empty"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    run: Run, arguments: list[str], code: int, sentence: str
) -> None:
    found, out, err = run("quota", *arguments)
    assert (found, out) == (code, "")
    assert sentence in err
