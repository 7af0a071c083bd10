"""The picture of both runs: one page that any browser opens, with nothing to load."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from examples.demo.run import Kill, Sample, Story

_WIDTH, _HEIGHT = 560, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 40, 40

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Semel: exactly once, under kills</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #1b1f24; background: #fff;
       max-width: 1200px; margin: 2rem auto; padding: 0 1rem }}
.runs {{ display: flex; flex-wrap: wrap; gap: 2rem }}
figure {{ margin: 0; flex: 1 1 480px }}
svg {{ width: 100%; height: auto }}
svg text {{ font: 12px system-ui, sans-serif; fill: #57606a }}
table {{ border-collapse: collapse; margin-top: .5rem; width: 100% }}
td {{ padding: .15rem .5rem; border-top: 1px solid #d0d7de }}
td + td {{ text-align: right; font-variant-numeric: tabular-nums }}
.good {{ color: #1a7f37; font-weight: 600 }} .bad {{ color: #cf222e; font-weight: 600 }}
</style></head><body>
<h1>{heading}</h1>
<p>Orders come in (grey), a PySpark pipeline enriches each and writes it out (colour). {lines}
Results above the orders are duplicates.</p>
<div class="runs">{runs}</div>
</body></html>
"""

_RUN = """<figure><h2>{delivery}</h2>
<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{drawing}</svg>
<table>{rows}</table></figure>
"""


class Words(NamedTuple):
    heading: str
    lines: str
    """What the dashed ones are."""


def write_picture(path: Path, stories: Sequence[Story], words: Words) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # One scale for all, so that heights can be compared.
    tallest = max(max(sample[1:]) for story in stories for sample in story.samples)
    runs = "".join(_run(story, tallest) for story in stories)
    page = _PAGE.format(runs=runs, **words._asdict())
    path.write_text(page, encoding="utf-8")


def _run(story: Story, tallest: int) -> str:
    found = story.outcome
    return _RUN.format(
        delivery=escape(story.delivery),
        width=_WIDTH,
        height=_HEIGHT,
        label=escape(
            f"{story.delivery}: {found.orders_in} orders in, {found.results_out} results out, "
            f"{found.lost} lost, {found.duplicated} duplicated"
        ),
        drawing=_Chart(story.samples[-1].at_s or 1.0, tallest or 1).draw(story),
        rows="".join(
            [
                _row("orders in", f"{found.orders_in:,}"),
                _row("results out", f"{found.results_out:,}"),
                _fault("lost", found.lost),
                _fault("duplicated", found.duplicated),
                _fault("wrong", found.wrong),
                _row("revenue due", f"{found.revenue_due_cents / 100:,.2f}"),
                _row("revenue in the results", f"{found.revenue_cents / 100:,.2f}"),
            ]
        ),
    )


def _row(name: str, value: str, kind: str = "") -> str:
    return f'<tr><td>{escape(name)}</td><td class="{kind}">{escape(value)}</td></tr>'


def _fault(name: str, count: int) -> str:
    return _row(name, f"{count:,}", "bad" if count else "good")


class _Chart:
    def __init__(self, length_s: float, tallest: int) -> None:
        self._length_s = length_s
        self._tallest = tallest

    def draw(self, story: Story) -> str:
        colour = "#1a7f37" if story.outcome.is_exact else "#cf222e"
        return "".join(
            [
                self._axes(),
                *(self._kill(kill) for kill in story.kills),
                self._line([(each.at_s, each.orders_in) for each in story.samples], "#8c959f"),
                self._line([(each.at_s, each.results_out) for each in story.samples], colour),
                self._end(story.samples[-1], colour),
            ]
        )

    def _x(self, at_s: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * at_s / self._length_s, 1)

    def _y(self, count: float) -> float:
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * count / self._tallest, 1)

    def _axes(self) -> str:
        marks = []
        for quarter in range(5):
            count = self._tallest * quarter // 4
            y = self._y(count)
            marks.append(
                f'<path d="M{_LEFT} {y}H{_WIDTH - _RIGHT}" stroke="#d8dee4"/>'
                f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{count:,}</text>'
            )
            at_s = self._length_s * quarter / 4
            marks.append(
                f'<text x="{self._x(at_s)}" y="{_HEIGHT - _BOTTOM + 20}" '
                f'text-anchor="middle">{at_s:.0f} s</text>'
            )
        return "".join(marks)

    def _kill(self, kill: Kill) -> str:
        x = self._x(kill.at_s)
        return (
            f'<path d="M{x} {_TOP - 8}V{_HEIGHT - _BOTTOM}" stroke="#57606a" '
            f'stroke-dasharray="4 4"/><text x="{x}" y="{_TOP - 14}" '
            f'text-anchor="middle">{escape(kill.victim)}</text>'
        )

    def _line(self, points: Sequence[tuple[float, int]], colour: str) -> str:
        """In steps: between two moments nothing has changed."""
        steps = [f"M{self._x(points[0][0])} {self._y(points[0][1])}"]
        steps += [f"H{self._x(at_s)}V{self._y(count)}" for at_s, count in points[1:]]
        return f'<path d="{"".join(steps)}" fill="none" stroke="{colour}" stroke-width="2"/>'

    def _end(self, last: Sample, colour: str) -> str:
        x, y = self._x(last.at_s), self._y(last.results_out)
        return (
            f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/>'
            f'<text x="{x - 8}" y="{y - 8}" text-anchor="end">{last.results_out:,}</text>'
        )
