"""The page that stands Semel beside Kafka: it is what the results say, and its plots are true."""

import os
import re
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench.beside_kafka import others, page, plots
from bench.beside_kafka.plots import Bar, Pair, Panel, PanelRow
from bench.beside_kafka.results import Results, Row

SVG = "{http://www.w3.org/2000/svg}"
TITLES = {"semel": "Semel", "kafka": "Kafka <&>"}


@pytest.fixture(scope="module")
def results() -> Results:
    return Results.read(page.KEPT)


def test_the_page_is_what_was_measured(results: Results) -> None:
    expected = page.pages(results)
    for file, text in expected.items():
        assert file.read_text(encoding="utf-8") == text, (
            f"{file}: `python -m bench.beside_kafka --page` writes it"
        )
    assert {*page.FOLDER.iterdir()} == {*expected, page.KEPT} - {page.PAGE}


def test_what_is_kept_is_read_as_it_was_written(results: Results, tmp_path: Path) -> None:
    results.write(tmp_path / "again.json")
    assert Results.read(tmp_path / "again.json") == results


def test_a_quick_run_and_a_busy_machine_are_told(results: Results) -> None:
    calm = {**results.machine, "others_percent": 2.0}
    busy = {**results.machine, "others_percent": 60.0}

    def told(*, quick: bool, machine: dict[str, object]) -> tuple[bool, bool]:
        text = page.pages(results._replace(quick=quick, machine=machine))[page.PAGE]
        return "of a quick run" in text, "was busy with other programs" in text

    assert told(quick=True, machine=calm) == (True, False)
    assert told(quick=False, machine=busy) == (False, True)
    assert told(quick=False, machine=calm) == (False, False)


def test_without_a_compiled_build_and_without_java_the_page_says_why(results: Results) -> None:
    rest = results._replace(
        versions={
            name: version
            for name, version in results.versions.items()
            if name not in ("semel_compiled", "java")
        },
        left_out=["Semel, compiled: no compiler", "the Java client: no javac"],
        rows=[
            row for row in results.rows if row.subject != "semel_compiled" and row.client != "java"
        ],
    )
    text = page.pages(rest)[page.PAGE]
    assert "- Semel, compiled: no compiler\n- the Java client: no javac" in text
    assert "| Semel, beside Kafka |" in text
    assert "| Java |" not in text


def test_a_loss_is_told_as_a_win_is(results: Results) -> None:
    """Of rates more is better, of times less; the greatest loss stands first."""
    rows = []
    for row in results.rows:
        factor = {"semel_compiled": 3.0, "kafka": 1.0}.get(row.subject, 2.0)
        rows.append(Row(*row[:4], {name: [factor] for name in row.values}))
    text = page.pages(results._replace(rows=rows))[page.PAGE]
    verdicts = re.findall(r"^\| (.*) \| (.*3\.00 times) \| (.*1\.50 times) \|$", text, re.MULTILINE)
    for title, beside_kafka, beside_kafka_with_syncs in verdicts:
        word = "ahead" if re.match("write|read|commits", title) else "**behind**"
        assert beside_kafka == f"{word} 3.00 times", title
        assert beside_kafka_with_syncs == f"{word} 1.50 times", title
    words = [beside_kafka.split()[0] for _, beside_kafka, _ in verdicts]
    assert words == sorted(words)
    assert {*words} == {"**behind**", "ahead"}
    behind = words.count("**behind**")
    assert f"Kafka is ahead in {behind}, Semel, compiled in {len(words) - behind}," in text


@pytest.mark.parametrize(("taken_s", "percent"), [(0.0, 0.0), (5.0, 25.0), (-0.1, 0.0)])
def test_what_the_run_does_itself_is_not_what_others_do(
    taken_s: float, percent: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = {"processes": 100.0, "own": 10.0, "clock": 0.0}
    monkeypatch.setattr(others, "_processes_s", lambda: now["processes"])
    monkeypatch.setattr(others, "_own_s", lambda: now["own"])
    monkeypatch.setattr(time, "perf_counter", lambda: now["clock"])
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    seen = others.Others()
    now.update(processes=107.0 + taken_s, own=17.0, clock=10.0)
    assert seen.percent() == pytest.approx(percent)


def bars_of(svg: str) -> list[tuple[str, float]]:
    """The class and the width of each bar, without those of the legend."""
    rectangles = ElementTree.fromstring(svg).iter(f"{SVG}rect")
    found = [(each.get("class", ""), float(each.get("width", ""))) for each in rectangles]
    return [each for each in found if each[0] != "ground"][len(TITLES) :]


def texts_of(svg: str) -> set[str]:
    return {each.text or "" for each in ElementTree.fromstring(svg).iter(f"{SVG}text")}


# Numbers in a plot have one digit behind the point.


def test_a_bar_is_as_long_as_its_number_is_large() -> None:
    rows = [
        PanelRow("100 B", [Panel("one", [Bar("semel", 50.0), Bar("kafka", 100.0)])]),
        PanelRow("1 KB", [Panel("one", [Bar("kafka", 1.0)]), Panel("two", [Bar("semel", 4.0)])]),
    ]
    svg = plots.bars("A title", "a unit", TITLES, rows)
    (semel, half), (kafka, whole), (_, one), (_, four) = bars_of(svg)
    assert (semel, kafka) == (plots.COLOURS["semel"], plots.COLOURS["kafka"])
    assert half / whole == pytest.approx(50 / 100, abs=0.001)
    assert one / four == pytest.approx(1 / 4, abs=0.001)
    assert {"A title", "a unit", "100 B", "Kafka <&>", "50.0", "100"} <= texts_of(svg)


def test_a_span_is_as_long_as_its_factor_is_large() -> None:
    """From 1 to 10 as from 10 to 100, in whichever panel."""
    rows = [
        PanelRow("100 B", [Panel("one", [Bar("semel", 1.0, 10.0)])]),
        PanelRow("1 KB", [Panel("one", [Bar("kafka", 10.0, 100.0), Bar("semel", 3.0, 3.0)])]),
    ]
    svg = plots.spans("A title", "a unit", TITLES, rows)
    lines = [
        (float(each.get("x1", "")), float(each.get("x2", "")))
        for each in ElementTree.fromstring(svg).iter(f"{SVG}line")
        if each.get("class") in ("semel", "kafka") and each.get("y1") == each.get("y2")
    ]
    (first, first_end), (second, second_end), (third, third_end) = lines
    assert first_end == second
    assert second_end - second == pytest.approx(first_end - first, abs=0.11)
    assert first < third == third_end < first_end
    assert {"1.00 / 10.0", "10.0 / 100", "3.00 / 3.00"} <= texts_of(svg)


def test_who_is_ahead_is_on_its_side_by_its_factor() -> None:
    pairs = [
        Pair("lost", {"kafka": 0.25}),
        Pair("even", {"kafka": 1.0}),
        Pair("won", {"kafka": 2.0}),
    ]
    svg = plots.comparison_by_factors("A title", "a note", TITLES, pairs)
    circles = ElementTree.fromstring(svg).iter(f"{SVG}circle")
    lost, even, won = (float(each.get("cx", "")) for each in circles)
    assert won > even
    assert even - lost == pytest.approx(2 * (won - even), abs=0.11)


def test_the_same_numbers_give_the_same_plot_and_all_colours_have_a_dark_one(
    results: Results,
) -> None:
    first, second = page.pages(results), page.pages(results)
    assert first == second
    for file, text in first.items():
        if file.suffix != ".svg":
            continue
        light, dark = text.split("prefers-color-scheme: dark", 1)
        used = {kind for each in re.findall(r' class="([^"]+)"', dark) for kind in each.split()}
        for kind in used - {"title", "plain"}:
            assert f".{kind} {{" in light, (file, kind)
            assert f".{kind} {{" in dark, (file, kind)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.004, "0.00"),
        (0.28, "0.28"),
        (9.994, "9.99"),
        (9.996, "10.0"),
        (99.94, "99.9"),
        (99.96, "100"),
        (1234.4, "1,234"),
        (12_345, "12.3 k"),
        (99_960, "100 k"),
        (812_345, "812 k"),
        (999_600, "1.00 M"),
        (1_080_000, "1.08 M"),
    ],
)
def test_numbers_have_three_digits_that_count(value: float, shown: str) -> None:
    assert plots.figure(value) == shown
