"""The page docs/beside-kafka.md and its plots, made of results alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.beside_kafka.plots import (
    Bar,
    Pair,
    Panel,
    PanelRow,
    bars,
    comparison_by_factors,
    figure,
    spans,
)
from bench.beside_kafka.results import Results, Row

ROOT: Final = Path(__file__).parent.parent.parent
PAGE: Final = ROOT / "docs" / "beside-kafka.md"
FOLDER: Final = PAGE.with_suffix("")
KEPT: Final = FOLDER / "results.json"

TITLES: Final[Mapping[str, str]] = {
    "semel": "Semel",
    "semel_compiled": "Semel, compiled",
    "kafka": "Kafka",
    "kafka_sync": "Kafka, a sync per write",
}
CLIENT_TITLES: Final[Mapping[str, str]] = {"librdkafka": "librdkafka", "java": "Java"}
MEANINGS: Final[Mapping[str, str]] = {
    "semel": "plain Python, its defaults | the records are on disk: one sync for all who wait",
    "semel_compiled": "the same source, compiled by mypyc | the same",
    "kafka": (
        "its defaults, the Java options of its start script | the kernel has the records, and "
        "writes them later: `kill -9` loses none, a power loss takes what was not yet written"
    ),
    "kafka_sync": (
        "as before, and `log.flush.interval.messages=1` | the records are on disk: a sync for each "
        "batch that a partition gets"
    ),
}
SERVER_CPU: Final = "Processor time of the server, µs for each record"
QUIET_PERCENT: Final = 10
"""Of the cores, that a machine may be busy with something else while it measures."""
EVEN: Final = 1.1
"""Who is ahead by less is not called ahead."""


class Comparison(NamedTuple):
    """A line of the summary."""

    title: str
    rows: Mapping[str, Row]
    value: str
    more_is_better: bool


def size_title(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size // 1024} KB"


def several(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def pages(results: Results) -> dict[Path, str]:
    """Each file of the page, as it should be."""
    return {PAGE: _page(results)} | {
        FOLDER / f"{name}.svg": plot for name, plot in _plots(results).items()
    }


def write_page(results: Results) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, text in pages(results).items():
        file.write_text(text, encoding="utf-8")


def _page(results: Results) -> str:
    parts = [
        *_introduction(results),
        *_summary(results),
        *_rates(results),
        *_one_record(results),
        *_transactions(results),
        *_start_and_memory(results),
        *_method(results),
    ]
    return "\n\n".join(parts) + "\n"


# What is compared


def _introduction(results: Results) -> Iterator[str]:
    machine = results.machine
    yield "# Beside Apache Kafka"
    yield (
        "How fast Semel is beside Apache Kafka: one broker each, on one machine, driven by the "
        "same clients, in turns. `make bench-peers` measures it and writes this page, with all "
        "its numbers, tables and plots, from [results.json](beside-kafka/results.json)."
    )
    if results.quick:
        yield (
            "**These numbers are of a quick run** (`--quick`): one short turn of each server in "
            "each setting, after a short warm-up. They are rough, and Java had no time to get warm."
        )
    if machine["others_percent"] > QUIET_PERCENT:
        yield (
            f"**The machine was busy with other programs**: they took "
            f"{machine['others_percent']:.0f} % of its cores meanwhile. What is said of who is "
            "ahead may be wrong by much."
        )
    facts = [
        f"{several(machine['cores'], 'core')} of {machine['processor']}",
        f"{machine['memory_gb']} GB",
        machine["system"],
        f"Python {machine['python']}",
        machine["java"],
        f"a sync of 1 KB to the disk takes {machine['sync_ms']:.2f} ms (median)",
    ]
    yield (
        f"{results.date}: {', '.join(facts)}. `{results.command}` at {results.commit} took "
        f"{results.plan['minutes']:.0f} minutes, and other programs took "
        f"{machine['others_percent']:.1f} % of the cores meanwhile."
    )
    lines = ["| server | version | how it runs | what `acks=all` means |", "|---|---|---|---|"]
    lines += [
        f"| {title} | {results.versions[name]} | {MEANINGS[name]} |"
        for name, title in TITLES.items()
        if name in results.versions
    ]
    yield "\n".join(lines)
    versions = [results.versions[name] for name in results.clients]
    yield (
        f"The clients are {' and '.join(versions)}, with their defaults and acks=all. Whoever "
        "runs Kafka on several machines has copies of each record in place of a sync; that is not "
        "measured here, and neither are several nodes of Semel on a store."
    )
    if results.left_out:
        yield "Left out:\n\n" + "\n".join(f"- {each}" for each in results.left_out)


# Who is ahead


def _ours(results: Results) -> str:
    return "semel_compiled" if "semel_compiled" in results.versions else "semel"


def _comparisons(results: Results) -> Iterator[Comparison]:
    for client in results.clients:
        name = CLIENT_TITLES[client]
        for size in results.settings("produce_rate", "record_size"):
            for producers in results.settings("produce_rate", "producers"):
                rows = results.of("produce_rate", client, record_size=size, producers=producers)
                title = f"write {size_title(size)}, {several(producers, 'producer')}, {name}"
                yield Comparison(title, rows, "records_per_s", True)
        for size in results.settings("consume_rate", "record_size"):
            rows = results.of("consume_rate", client, record_size=size)
            yield Comparison(f"read {size_title(size)}, {name}", rows, "records_per_s", True)
        for size in results.settings("one_record", "record_size"):
            rows = results.of("one_record", client, record_size=size)
            yield Comparison(
                f"one record of {size_title(size)}, p50, {name}", rows, "p50_ms", False
            )
        for partitions in results.settings("transaction_width", "partitions"):
            rows = results.of("transaction_width", client, partitions=partitions, producers=1)
            title = f"transaction, {several(partitions, 'partition')}, p50, {name}"
            yield Comparison(title, rows, "p50_ms", False)
        for producers in results.settings("transactions_at_once", "producers"):
            rows = results.of("transactions_at_once", client, partitions=1, producers=producers)
            title = f"commits/s, {several(producers, 'producer')}, {name}"
            yield Comparison(title, rows, "commits_per_s", True)
    start, memory = results.of("start_up"), results.of("memory")
    yield Comparison("start in a new folder", start, "new_s", False)
    yield Comparison("start after kill -9", start, "killed_s", False)
    yield Comparison("memory before any load", memory, "idle_mb", False)
    yield Comparison("memory after all of this", memory, "used_mb", False)


def _pairs(results: Results) -> list[Pair]:
    """From where Kafka with its defaults is furthest ahead to where Semel is."""
    ours = _ours(results)
    found = []
    for title, rows, value, more_is_better in _comparisons(results):
        own = rows[ours].value(value)
        quotients = {name: own / rows[name].value(value) for name in ("kafka", "kafka_sync")}
        found.append(
            Pair(
                title,
                {
                    name: quotient if more_is_better else 1 / quotient
                    for name, quotient in quotients.items()
                },
            )
        )
    return sorted(found, key=lambda pair: pair.ratios["kafka"])


def _summary(results: Results) -> Iterator[str]:
    pairs = _pairs(results)
    ours = TITLES[_ours(results)]
    yield "## Who is ahead"
    for name in ("kafka", "kafka_sync"):
        behind = [pair for pair in pairs if pair.ratios[name] < 1 / EVEN]
        ahead = [pair for pair in pairs if pair.ratios[name] > EVEN]
        even = len(pairs) - len(behind) - len(ahead)
        other = "Kafka with its defaults" if name == "kafka" else "Kafka with a sync per write"
        yield (
            f"Of {len(pairs)} comparisons with {other}, Kafka is ahead in {len(behind)}, {ours} in "
            f"{len(ahead)}, and in {even} nobody is, by 10 % at least."
        )
    yield (
        f"![How many times as good {ours} is as Kafka in each comparison](beside-kafka/summary.svg)"
    )
    yield "From the greatest loss beside a Kafka with its defaults to the greatest win:"
    lines = [f"| | {ours}, beside Kafka | beside Kafka, a sync per write |", "|---|---|---|"]
    lines += [
        f"| {title} | {_verdict(ratios['kafka'])} | {_verdict(ratios['kafka_sync'])} |"
        for title, ratios in pairs
    ]
    yield "\n".join(lines)


def _verdict(ratio: float) -> str:
    if ratio < 1 / EVEN:
        return f"**behind** {figure(1 / ratio)} times"
    return f"ahead {figure(ratio)} times" if ratio > EVEN else "even"


# Tables


class Line(NamedTuple):
    titles: Sequence[str]
    rows: Mapping[str, Row]


Show = Callable[[Row], str]


def _table(caption: str, head: Sequence[str], lines: Sequence[tuple[Line, Show]]) -> str:
    """One line for each setting, one column for each server."""
    subjects = [name for name in TITLES if any(name in line.rows for line, _ in lines)]
    text = [f"| {' | '.join([*head, *(TITLES[name] for name in subjects)])} |"]
    text.append("|" + "---|" * len(head) + "---:|" * len(subjects))
    for line, show in lines:
        cells = [show(line.rows[name]) for name in subjects]
        text.append(f"| {' | '.join([*line.titles, *cells])} |")
    return f"{caption}:\n\n" + "\n".join(text)


def _all(lines: Sequence[Line], show: Show) -> list[tuple[Line, Show]]:
    return [(line, show) for line in lines]


def _shown(name: str) -> Callable[[Row], str]:
    return lambda row: figure(row.value(name))


def _latency(row: Row) -> str:
    return f"{figure(row.value('p50_ms'))} / {figure(row.value('p99_ms'))}"


Cells = Sequence[tuple[str, Mapping[str, Row]]]
"""A row of panels: the title of each, and what each server has there."""
Grid = Sequence[tuple[str, Cells]]


def _panels(grid: Grid, value: str, up_to: str = "") -> list[PanelRow]:
    def panel(title: str, rows: Mapping[str, Row]) -> Panel:
        named = [(name, rows[name]) for name in TITLES if name in rows]
        return Panel(
            title,
            [
                Bar(name, row.value(value), row.value(up_to) if up_to else 0.0)
                for name, row in named
            ],
        )

    return [PanelRow(title, [panel(*cell) for cell in cells]) for title, cells in grid]


def _by_client(results: Results, measure: str, **settings: int) -> list[tuple[str, dict[str, Row]]]:
    return [
        (CLIENT_TITLES[client], results.of(measure, client, **settings))
        for client in results.clients
    ]


# Parts of the page


def _rates(results: Results) -> Iterator[str]:
    yield "## Plain writes"
    yield (
        "Records per second until the last one is acknowledged, to a topic of 4 partitions, not "
        "compressed. With librdkafka each producer is a process of Python, with Java a thread. "
        "Clients and server share the cores, so that a record that costs the server less leaves "
        "more to the clients; what it costs is in the second table."
    )
    yield "![Records written per second](beside-kafka/produce_rate.svg)"
    writes = [
        Line(
            [CLIENT_TITLES[client], size_title(size), str(producers)],
            results.of("produce_rate", client, record_size=size, producers=producers),
        )
        for client in results.clients
        for size in results.settings("produce_rate", "record_size")
        for producers in results.settings("produce_rate", "producers")
    ]
    head = ["client", "record", "producers"]
    yield _table("Records per second", head, _all(writes, _shown("records_per_s")))
    yield _table(SERVER_CPU, head, _all(writes, _shown("server_cpu_us")))
    yield "## Reads"
    yield (
        "Records per second of one consumer that reads a topic of 4 partitions from its beginning "
        "to its end, out of the kernel's memory."
    )
    yield "![Records read per second](beside-kafka/consume_rate.svg)"
    reads = [
        Line(
            [CLIENT_TITLES[client], size_title(size)],
            results.of("consume_rate", client, record_size=size),
        )
        for client in results.clients
        for size in results.settings("consume_rate", "record_size")
    ]
    head = ["client", "record"]
    yield _table("Records per second", head, _all(reads, _shown("records_per_s")))
    yield _table(SERVER_CPU, head, _all(reads, _shown("server_cpu_us")))


def _one_record(results: Results) -> Iterator[str]:
    yield "## One record"
    yield (
        "One producer that does not linger, and sends a record when the one before it is "
        "acknowledged. A Kafka that does not sync has no disk to wait for."
    )
    yield "![From send to acknowledgement](beside-kafka/one_record.svg)"
    lines = [
        Line(
            [CLIENT_TITLES[client], size_title(size)],
            results.of("one_record", client, record_size=size),
        )
        for client in results.clients
        for size in results.settings("one_record", "record_size")
    ]
    caption = "From send to acknowledgement, ms, p50 / p99"
    yield _table(caption, ["client", "record"], _all(lines, _latency))


def _transactions(results: Results) -> Iterator[str]:
    yield "## Transactions"
    yield (
        "From *begin* to *committed*, as the program sees it, with a record of 100 B for each "
        "partition. Kafka writes to the log of its coordinator and to each partition, and says "
        "*committed* before all of that is done, so that the client may have to try the next "
        "transaction again; Semel writes one frame. librdkafka adds each partition to the "
        "transaction before it writes there (TV1); the Java client does not need to (TV2)."
    )
    yield "![A transaction over several partitions](beside-kafka/transaction_width.svg)"
    widths = [
        Line(
            [CLIENT_TITLES[client], str(partitions)],
            results.of("transaction_width", client, partitions=partitions, producers=1),
        )
        for client in results.clients
        for partitions in results.settings("transaction_width", "partitions")
    ]
    head = ["client", "partitions"]
    yield _table("One producer, ms, p50 / p99", head, _all(widths, _latency))
    yield _table("One producer, commits per second", head, _all(widths, _shown("commits_per_s")))
    yield "![Commits per second of several producers](beside-kafka/transactions_at_once.svg)"
    at_once = [
        Line(
            [CLIENT_TITLES[client], str(producers)],
            results.of("transactions_at_once", client, partitions=1, producers=producers),
        )
        for client in results.clients
        for producers in results.settings("transactions_at_once", "producers")
    ]
    head = ["client", "producers"]
    commits = _all(at_once, _shown("commits_per_s"))
    yield _table("One partition, commits per second", head, commits)
    yield _table("One partition, ms, p50 / p99", head, _all(at_once, _latency))


def _start_and_memory(results: Results) -> Iterator[str]:
    restart_mb = results.plan["restart_bytes"] / 1e6
    yield "## Start, restart, memory"
    yield (
        "From starting the process to its first acknowledged record: in a new folder, which for "
        "Kafka is formatted before the clock is started, and in one with "
        f"{restart_mb:.0f} MB whose server was ended by `kill -9`. The offset of that record tells "
        "that none was lost. A Kafka that was killed waits until its controller has given up the "
        "broker that was there before (`broker.session.timeout.ms`, 9 s)."
    )
    yield "![From start to the first record](beside-kafka/start_up.svg)"
    rows = results.of("start_up")
    lines = [
        (Line(["in a new folder"], rows), _shown("new_s")),
        (Line(["after `kill -9`"], rows), _shown("killed_s")),
    ]
    yield _table("Seconds to the first record", ["start"], lines)
    yield (
        "Memory is what the process has resident. Kafka's heap is 1 GB from its start on, as its "
        "start script has it."
    )
    yield "![Resident memory](beside-kafka/memory.svg)"
    rows = results.of("memory")
    lines = [
        (Line(["MB before any load"], rows), _shown("idle_mb")),
        (Line(["MB after all of this"], rows), _shown("used_mb")),
        (Line(["% of a core while nobody asks for anything"], rows), _shown("idle_cpu_percent")),
    ]
    yield _table("Resident memory, and what waiting costs", [""], lines)


def _method(results: Results) -> Iterator[str]:
    plan = results.plan
    rounds = ", ".join(f"{TITLES[name]} {count}" for name, count in plan["warm_rounds"].items())
    yield "## How it is measured"
    yield (
        "- All servers run side by side, and one of them at a time has work. Clients and servers "
        f"share the {several(results.machine['cores'], 'core')}; nothing is bound to one.\n"
        "- **Warm**: before anything counts, each server has rounds of plain writes, single "
        "records, transactions and reads from all clients, until two in a row bring nothing: at "
        f"least {plan['warm_rounds_min']}, at most {plan['warm_rounds_max']}. They had: {rounds}. "
        "The clients are the same processes all the time.\n"
        f"- **In turns**: each setting has {several(plan['turns'], 'turn')} of each server that "
        f"count and a shorter one before them that does not, of about {plan['seconds']} s or "
        f"{plan['turn_bytes_max'] / 1e6:.0f} MB; who begins changes with each turn. Rates are "
        "medians of turns; percentiles are those of all answers in the turns that count, and where "
        "there were fewer than 100 the second is the longest. Starts are medians of "
        f"{plan['starts']}, behind one that does not count.\n"
        "- What lies in the kernel's memory is written to the disk before each turn, so that "
        "nobody waits for what another one has left there. What a Kafka without syncs still owes "
        "the disk when its turn ends is on nobody's clock.\n"
        "- After each turn of plain writes the records are counted in the topic, and all that "
        "were acknowledged have to be there."
    )


# Plots


def _plots(results: Results) -> dict[str, str]:
    def drawn(title: str, unit: str, rows: Sequence[PanelRow]) -> str:
        return bars(title, unit, TITLES, rows)

    def from_p50_to_p99(title: str, lines: Grid) -> str:
        unit = "ms on a scale of factors, less is better: p50 is the point, p99 the end of its line"
        return spans(title, unit, TITLES, _panels(lines, "p50_ms", "p99_ms"))

    writes = [
        (
            size_title(size),
            [
                (
                    f"{CLIENT_TITLES[client]}, {several(producers, 'producer')}",
                    results.of("produce_rate", client, record_size=size, producers=producers),
                )
                for client in results.clients
                for producers in results.settings("produce_rate", "producers")
            ],
        )
        for size in results.settings("produce_rate", "record_size")
    ]
    reads = [
        (size_title(size), _by_client(results, "consume_rate", record_size=size))
        for size in results.settings("consume_rate", "record_size")
    ]
    single = [
        (size_title(size), _by_client(results, "one_record", record_size=size))
        for size in results.settings("one_record", "record_size")
    ]
    widths = [
        (
            several(count, "partition"),
            _by_client(results, "transaction_width", partitions=count, producers=1),
        )
        for count in results.settings("transaction_width", "partitions")
    ]
    at_once = [
        (
            several(count, "producer"),
            _by_client(results, "transactions_at_once", partitions=1, producers=count),
        )
        for count in results.settings("transactions_at_once", "producers")
    ]
    start, memory = results.of("start_up"), results.of("memory")
    ours = TITLES[_ours(results)]
    return {
        "summary": comparison_by_factors(
            f"{ours} beside Kafka",
            "how many times as good, on a scale of factors",
            {"kafka": "beside Kafka", "kafka_sync": "beside Kafka, a sync per write"},
            _pairs(results),
        ),
        "produce_rate": drawn(
            "Plain writes, acks=all",
            "records per second, more is better; one scale for each size",
            _panels(writes, "records_per_s"),
        ),
        "consume_rate": drawn(
            "Reads",
            "records per second, more is better; one scale for each size",
            _panels(reads, "records_per_s"),
        ),
        "one_record": from_p50_to_p99("One record, from send to acknowledgement", single),
        "transaction_width": from_p50_to_p99(
            "A transaction of one producer, from begin to committed", widths
        ),
        "transactions_at_once": drawn(
            "Transactions of several producers",
            "commits per second, more is better; one scale for each number of producers",
            _panels(at_once, "commits_per_s"),
        ),
        "start_up": drawn(
            "From start to the first acknowledged record",
            "seconds, less is better",
            [
                *_panels([("new folder", [("", start)])], "new_s"),
                *_panels([("after kill -9", [("", start)])], "killed_s"),
            ],
        ),
        "memory": drawn(
            "Resident memory",
            "MB, less is better",
            [
                *_panels([("before load", [("", memory)])], "idle_mb"),
                *_panels([("after all", [("", memory)])], "used_mb"),
            ],
        ),
    }
