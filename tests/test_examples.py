"""The examples do what they show."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

from examples import administer, billing, kill_and_recover, produce_and_consume
from rich.console import Console

from semel.cli import serve
from semel.testing import Broker

ROOT = Path(__file__).parent.parent


def test_nothing_is_lost_under_kills() -> None:
    outcome = kill_and_recover.main(Console(file=io.StringIO()))
    assert outcome.read == outcome.sent == outcome.acknowledged
    assert outcome.sent >= kill_and_recover.KILLS * kill_and_recover.RECORDS_BETWEEN_KILLS
    assert (outcome.lost, outcome.duplicated, outcome.out_of_order) == (0, 0, 0)


def test_what_is_produced_is_consumed_also_when_it_is_run_again(semel_broker: Broker) -> None:
    servers, greetings = semel_broker.bootstrap_servers, produce_and_consume.GREETINGS
    assert produce_and_consume.main(servers) == greetings
    assert produce_and_consume.main(servers) == greetings


def test_orders_are_billed_and_what_cannot_be_is_laid_aside(semel_broker: Broker) -> None:
    invoices, unbilled = billing.main(semel_broker.bootstrap_servers)
    assert invoices == {"ada": "3 x apple: 1.20 EUR", "bob": "2 x pear: 1.10 EUR"}
    assert unbilled == ["eve"]


def test_a_group_reads_again_from_a_moment_on(semel_broker: Broker) -> None:
    again = ["trade 3", "trade 4"]
    assert administer.main(semel_broker.bootstrap_servers) == again
    assert administer.main(semel_broker.bootstrap_servers) == again


def test_a_broker_is_embedded_in_pytest() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "examples/embedded_in_pytest.py"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert "2 passed" in ran.stdout


def test_what_the_compose_file_runs_is_there() -> None:
    lines = (ROOT / "examples" / "cluster" / "compose.yaml").read_text()
    found = re.findall(r"^    command: (\[.*\])$", lines, re.MULTILINE)
    commands = [json.loads(each) for each in found]
    nodes = [
        serve.parser().parse_args(command[1:]) for command in commands if command[0] == "serve"
    ]
    assert [node.node_id for node in nodes] == [1, 2, 3]
    assert {node.store for node in nodes} == {"s3://semel/log"}
    (made,) = (command for command in commands if "semel cluster create" in command[0])
    assert "--store s3://semel/log" in made[0]
    (demo,) = (command for command in commands if command[0] == "--cluster")
    helped = subprocess.run(
        [sys.executable, "-m", "examples.demo", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for option in (each for each in demo if each.startswith("--")):
        assert option in helped.stdout
