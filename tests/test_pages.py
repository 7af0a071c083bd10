"""The pages name tests, files, commands and code: they exist, and do what is said of them."""

import ast
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import semel
from semel.broker.listeners import listeners_of
from semel.broker.options import static_config
from semel.cli import serve
from semel.client.admin.settings import AdminOptions
from semel.client.connecting.security_settings import SECURITY_SETTINGS
from semel.client.consuming.settings import ConsumerOptions, ConsumerSettings
from semel.client.producing.settings import ProducerOptions, ProducerSettings
from semel.spark.kafka_options import KAFKA_OPTIONS
from semel.spark.options import SINK, SOURCE
from semel.testing import Broker, Cluster
from semel.testing.topics import Topics
from support import topics

ROOT = Path(__file__).parent.parent


def test_every_check_behind_a_promise_exists() -> None:
    named = re.findall(r"`(tests/[^`]+)`", (ROOT / "GUARANTEES.md").read_text())
    assert named
    for node in named:
        file, _, test = node.partition("::")
        assert (ROOT / file).exists(), node
        assert not test or f"def {test}(" in (ROOT / file).read_text(), node


def test_every_module_that_the_architecture_names_exists() -> None:
    for module in re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", (ROOT / "ARCHITECTURE.md").read_text()):
        assert (ROOT / "src" / "semel" / module).exists(), module


def test_the_map_of_the_architecture_has_every_module_and_package() -> None:
    (there,) = blocks("ARCHITECTURE.md")
    named = {
        name.rstrip("/") for line in there.splitlines() for name in line.split("  ")[0].split()
    }
    found = {
        path.stem for path in (ROOT / "src" / "semel").glob("[a-z]*") if path.suffix != ".typed"
    }
    assert found <= named


@pytest.mark.parametrize("page", ["admin", "producer", "consumer"])
def test_a_snippet_that_imports_what_it_needs_runs_as_it_stands(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    snippets = [
        snippet
        for snippet in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        if "from semel import" in snippet and "for record in consumer:" not in snippet
    ]
    assert snippets
    with Broker() as broker:
        topics.create(broker.bootstrap_servers, "orders")
        for snippet in snippets:
            exec(snippet.replace("localhost:9092", broker.bootstrap_servers), {})


def blocks(page: str, language: str = "") -> list[str]:
    """The snippets of a page, in this language or in none."""
    fenced = re.findall(
        r"^```(.*?)\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE
    )
    return [content for name, content in fenced if name == language]


def shell(commands: str, servers: str) -> str:
    """What these commands print, with `semel` as it is installed here."""
    folder = Path(sys.executable).parent
    environment = os.environ | {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "SEMEL_BOOTSTRAP_SERVERS": servers,
    }
    done = subprocess.run(
        ["bash", "-ec", commands], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_commands_of_the_readme_put_one_key_into_one_partition() -> None:
    create = re.findall(r"^semel topic create .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    (python,) = (each for each in blocks("README.md", "python") if "confluent_kafka" in each)
    (commands,) = (each for each in blocks("README.md") if "semel consume" in each)
    with Broker() as broker:
        servers = broker.bootstrap_servers
        shell("\n".join(create), servers)
        exec(python.replace("127.0.0.1:9092", servers), {})
        printed = shell(commands, servers)
    found = [line.split(maxsplit=3) for line in printed.splitlines() if " 42 " in line]
    assert len({partition for partition, *_ in found}) == 1
    assert [(key, value) for _, _, key, value in found] == [
        ("42", "three apples"),
        ("42", "two pears"),
    ]


def test_the_start_page_begins_with_what_works() -> None:
    _, commands = (each for each in blocks("docs/index.md", "bash"))
    (python,) = blocks("docs/index.md", "python")
    with Broker() as broker:
        printed = shell(commands, broker.bootstrap_servers)
        assert sorted(printed.splitlines()[-2:]) == ["ada says hello", "bob says good morning"]
        names: dict[str, Any] = {"print": lambda count: names.update(count=count)}
        exec(python.replace("127.0.0.1:9092", broker.bootstrap_servers), names)
        assert names["count"] == 3


def test_the_commands_about_the_data_folder_run_in_their_order(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "semel-data") as broker:
        topics.fill(broker.bootstrap_servers, "orders", [b"three apples"])
    commands = [f"cd {tmp_path}", *blocks("docs/data-folder.md")]
    assert sum("semel log" in each for each in commands) == 3
    printed = shell("\n".join(commands), "")
    assert '"three apples"' in printed
    assert "all is whole" in printed
    assert (tmp_path / "backup-of-today" / "format").read_bytes() == b"format 1\n"


def test_the_file_of_settings_is_taken_by_a_broker(tmp_path: Path) -> None:
    (content,) = blocks("docs/settings.md", "toml")
    file = tmp_path / "semel.toml"
    file.write_text(content)
    options = serve.options_of(["--config", str(file)])
    assert (options.listen, options.log_format) == ("0.0.0.0:9092", "json")
    config = static_config(options)
    assert (config.num_partitions, config.log_retention_ms) == (8, 48 * 3_600_000)
    (listener,) = listeners_of(config)
    assert listener.advertised == ("broker-1", 9092)


PAGES = ("README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md")))


def test_semel_is_installed_from_a_checkout_and_not_by_a_name_that_no_registry_has() -> None:
    sources = [ROOT / "src", ROOT / "examples", ROOT / "docs"]
    texts = [
        file for folder in sources for file in folder.rglob("*.*") if file.suffix in (".py", ".md")
    ]
    for file in (*ROOT.glob("*.md"), *texts):
        for command in re.findall(r"pip install ([^\n`]*)", file.read_text()):
            assert not re.search(r"(^|[\s'\"])semel\b", command), f"{file}: {command}"


def anchors(page: Path) -> set[str]:
    """As they are made of headings by what shows these pages."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_somewhere() -> None:
    for page in ROOT.glob("*.md"), (ROOT / "docs").rglob("*.md"):
        for file in page:
            for link in re.findall(r"\]\(([^)]+)\)", file.read_text()):
                if "://" in link:
                    continue
                path, _, anchor = link.partition("#")
                target = (file.parent / path).resolve() if path else file
                assert target.exists(), f"{file}: {link}"
                assert not anchor or anchor in anchors(target), f"{file}: {link}"


@pytest.mark.parametrize("page", PAGES)
def test_every_snippet_is_python(page: str) -> None:
    for snippet in blocks(page, "python"):
        compile(snippet, page, "exec")


# Options


def options_of(page: str, title: str = "option") -> dict[str, str]:
    """Each option that a table of the page has, with the default that stands beside it."""
    found: dict[str, str] = {}
    for table in re.findall(r"(?:^\|.*\n)+", (ROOT / page).read_text(), re.MULTILINE):
        header, _, *rows = table.splitlines()
        if not header.startswith(f"| {title} "):
            continue
        for row in rows:
            names, defaults, *_ = (cell.strip() for cell in row.strip("|").split(" | "))
            several = re.findall(r"`([^`]+)`", names)
            values = defaults.split(", ")
            if len(values) != len(several):
                values = [defaults] * len(several)
            found.update(zip(several, values, strict=True))
    return found


_SIZES = {"KiB": 1 << 10, "MiB": 1 << 20}


def value_of(text: str) -> object:
    """A default as a page writes it."""
    if text in ("none", ""):
        return None
    if match := re.fullmatch(r"(\d+) (KiB|MiB)", text):
        return int(match[1]) * _SIZES[match[2]]
    return ast.literal_eval(text.strip("`"))


def test_the_options_of_a_producer_are_those_on_its_page() -> None:
    listed = options_of("docs/producer.md")
    assert listed.keys() == ProducerOptions.__annotations__.keys() - {
        "key_serializer",
        "value_serializer",
    }
    defaults = ProducerSettings()._asdict()
    apart = {"acks", "enable_idempotence", "compression", "partitioner", "client_id", "security"}
    assert {name: value_of(text) for name, text in listed.items() if name not in apart} == {
        name: defaults[name] for name in listed if name not in apart
    }


def test_the_options_of_a_consumer_are_those_on_its_page() -> None:
    listed = options_of("docs/consumer.md")
    described = {"key_deserializer", "value_deserializer"}
    assert listed.keys() == ConsumerOptions.__annotations__.keys() - described
    defaults = ConsumerSettings()._asdict()
    apart = {"isolation", "assignor", "client_id", "security"}
    assert {name: value_of(text) for name, text in listed.items() if name not in apart} == {
        name: defaults[name] for name in listed if name not in apart
    }


def test_the_options_of_a_listener_are_those_on_its_page() -> None:
    listed = options_of("docs/applications.md", "option of `listener`")
    declared = inspect.signature(semel.App.listener).parameters
    own = declared.keys() - {"self", "topics", "name", "consumer_options"}
    assert listed.keys() == own | {"key_deserializer", "value_deserializer"}
    for name in own - {"group", "retry_on"}:
        assert value_of(listed[name]) == declared[name].default, name


def test_the_calls_and_options_of_an_admin_are_those_on_their_page() -> None:
    assert options_of("docs/admin.md").keys() == AdminOptions.__annotations__.keys()
    named = re.findall(r"`(\w+)\(([^)]*)\)`", (ROOT / "docs" / "admin.md").read_text())
    calls = {
        name: inspect.signature(call)
        for name, call in vars(semel.Admin).items()
        if not name.startswith("_") and name != "close"
    }
    assert {name for name, _ in named} == calls.keys()
    for name, parameters in named:
        for each in filter(None, parameters.split(", ")):
            assert each in ("id", *calls[name].parameters) or each[:-1] in calls[name].parameters


def test_the_settings_of_security_are_those_on_their_page() -> None:
    listed = options_of("docs/secured-clusters.md", "setting")
    assert listed.keys() == SECURITY_SETTINGS.keys()


def test_every_option_of_a_pipeline_that_its_page_lists_exists() -> None:
    listed = options_of("docs/pipelines.md")
    assert listed.keys() <= SOURCE | SINK | KAFKA_OPTIONS


# Snippets that need something around them


@pytest.fixture(scope="module")
def own_broker() -> Iterator[Broker]:
    """Snippets of several pages name the same topics, which the tests of other files use too."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def servers(own_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SEMEL_BOOTSTRAP_SERVERS", own_broker.bootstrap_servers)
    return own_broker.bootstrap_servers


def run_snippet(snippet: str, servers: str, **around: object) -> dict[str, Any]:
    names: dict[str, Any] = {"semel": semel, **around}
    exec(re.sub(r"(127\.0\.0\.1|localhost):9092", servers, snippet), names)
    return names


def snippet_with(page: str, words: str) -> str:
    (found,) = (snippet for snippet in blocks(page, "python") if words in snippet)
    return found


def test_the_transaction_of_the_readme_commits(servers: str) -> None:
    run_snippet(snippet_with("README.md", "producer.transaction()"), servers)
    assert [semel.read(topic).num_rows for topic in ("topic1", "topic2")] == [1, 1]


@pytest.mark.parametrize("page", ["README.md", "docs/applications.md"])
def test_the_listener_of_a_page_bills(servers: str, page: str) -> None:
    source, target = (f"{name}-of-{page.rpartition('/')[2]}" for name in ("orders", "invoices"))
    topics.fill(servers, source, [b"an order"])
    snippet = snippet_with(page, "def bill").replace('"orders"', f'"{source}"')
    snippet = snippet.replace('"invoices"', f'"{target}"').replace("orders.dead", f"{source}.dead")
    billing = run_snippet(snippet, servers, invoice=lambda order: order.value + b" billed")
    assert billing["app"].run_until_idle()["bill"].records == 1
    assert topics.values(servers, target) == [b"an order billed"]


def test_objects_are_sent_read_and_billed_as_the_pages_show(
    servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = run_snippet(snippet_with("docs/producer.md", "@dataclass"), servers)

    class Enough(Exception): ...

    def show(key: object, article: object) -> None:
        assert (key, article) == ("ada", "apple")
        raise Enough

    with pytest.raises(Enough):
        run_snippet(
            snippet_with("docs/consumer.md", "value=Order"),
            servers,
            Order=names["Order"],
            print=show,
        )

    @dataclass
    class Invoice:
        article: str
        cents: int

    app = semel.App(servers)
    shown = {"app": app, "Record": semel.Record, "Transaction": semel.Transaction}
    run_snippet(
        snippet_with("docs/applications.md", "def total"),
        servers,
        Order=names["Order"],
        Invoice=Invoice,
        **shown,
    )
    assert app.run_until_idle()["total"].records == 1
    assert topics.values(servers, "fruit-invoices") == [b'{"article":"apple","cents":120}']


def test_the_brokers_for_tests_are_there(semel_broker: Broker, semel_topics: Topics) -> None:
    used: list[str] = []
    names = {"run_my_code": used.append}
    run_snippet(snippet_with("README.md", "with Broker()"), "", **names)
    run_snippet(snippet_with("README.md", "def test_orders"), "", **names)["test_orders"](
        semel_broker, semel_topics
    )
    assert used[1] == semel_broker.bootstrap_servers != used[0]


def test_the_test_of_a_failover_passes(semel_cluster: Cluster) -> None:
    names = run_snippet(snippet_with("docs/cluster.md", "semel_cluster"), "")
    names["test_no_order_is_lost_with_the_leader"](semel_cluster)


def test_the_snippets_about_tables_run(servers: str) -> None:
    for topic in ("orders", "results", "copy"):
        topics.fill(servers, topic, [b"1"])
    for snippet in blocks("docs/tables.md", "python"):
        # What else takes Arrow is not installed here.
        ours = "\n".join(
            line for line in snippet.splitlines() if not re.search("polars|duckdb", line)
        )
        table = semel.read("orders", columns=["key", "value"])
        run_snippet(ours, servers, table=table, orders=table)
    assert semel.read("copy").num_rows == 2


def test_a_consumer_subscribes_and_takes_part_in_a_transaction_as_its_page_shows(
    servers: str,
) -> None:
    topics.fill(servers, "orders", [b"an order"])
    topics.create(servers, "invoices-of-the-page")
    with (
        semel.Consumer(group="of-the-page", enable_auto_commit=False) as consumer,
        semel.Producer(transactional_id="of-the-page") as producer,
    ):
        callbacks = dict.fromkeys(("load", "save", "drop"), lambda places: None)
        subscribe, transaction = (
            snippet_with("docs/consumer.md", words)
            for words in ("on_assigned=", "producer.transaction()")
        )
        run_snippet(subscribe, servers, consumer=consumer, **callbacks)
        while not semel.read("invoices-of-the-page").num_rows:
            run_snippet(
                transaction.replace('"invoices"', '"invoices-of-the-page"'),
                servers,
                consumer=consumer,
                producer=producer,
                invoice=lambda record: record.value,
            )


def test_the_recipes_are_taken_from_the_examples() -> None:
    programs = (file.read_text().splitlines() for file in (ROOT / "examples").glob("*.py"))
    lines = {line.strip() for program in programs for line in program}
    page = "docs/recipes.md"
    found = blocks(page, "python")
    assert found
    for snippet in found:
        assert {line.strip() for line in snippet.splitlines()} <= lines, snippet
    named = re.findall(r"^\| .* \| `(\w+)` \|$", (ROOT / page).read_text(), re.MULTILINE)
    assert named
    for name in named:
        assert (ROOT / "examples" / f"{name}.py").exists(), name
