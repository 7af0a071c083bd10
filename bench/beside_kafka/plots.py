"""Plots as SVG, drawn from numbers alone: the same numbers give the same bytes.

A plot has a ground of its own, and other colours where a dark theme is preferred, so that it can be
read on any page.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

WIDTH: Final = 760
_MARGIN: Final = 16
_LINE: Final = 15
"""From one bar to the next."""
_BAR: Final = 11
_POINT: Final = 4.5
_LABEL: Final = 58
"""What a bar leaves for its number."""
_SPAN_LABEL: Final = 84
_ROW_TITLE: Final = 74

COLOURS: Final[Mapping[str, str]] = {
    "semel": "semel plain",
    "semel_compiled": "semel",
    "kafka": "kafka",
    "kafka_sync": "kafka plain",
}
"""The classes of a server's bars: two hues that are told apart by all, each full or as a frame."""

_LIGHT: Final[Mapping[str, str]] = {
    "ground": "fill: #ffffff",
    "ink": "fill: #1f2328",
    "soft": "fill: #59636e",
    "line": "stroke: #d1d9e0",
    "middle": "stroke: #59636e",
    "semel": "fill: #0a7d83; stroke: #0a7d83",
    "kafka": "fill: #c8641b; stroke: #c8641b",
}
_DARK: Final[Mapping[str, str]] = {
    "ground": "fill: #1b1f27",
    "ink": "fill: #e6e9ee",
    "soft": "fill: #a3abb8",
    "line": "stroke: #3a414d",
    "middle": "stroke: #a3abb8",
    "semel": "fill: #3fc1c0; stroke: #3fc1c0",
    "kafka": "fill: #f0a35c; stroke: #f0a35c",
}
_PLAIN: Final = "fill-opacity: 0.25"


class Bar(NamedTuple):
    subject: str
    value: float
    up_to: float = 0.0
    """Where a span ends that begins at the value."""


class Panel(NamedTuple):
    title: str
    bars: Sequence[Bar]


class PanelRow(NamedTuple):
    title: str
    panels: Sequence[Panel]


class Pair(NamedTuple):
    """How many times as good as each of others it is; below 1 they are ahead."""

    title: str
    ratios: Mapping[str, float]


def figure(value: float) -> str:
    """Three digits that count."""
    if value >= 999_500:
        return f"{value / 1e6:.2f} M"
    if value >= 9_995:
        return f"{value / 1e3:.0f} k" if value >= 99_950 else f"{value / 1e3:.1f} k"
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


class _Place(NamedTuple):
    """Where a panel is drawn."""

    left: float
    top: float
    width: float
    height: float


def bars(title: str, unit: str, titles: Mapping[str, str], rows: Sequence[PanelRow]) -> str:
    """Panels beside each other, and such rows below each other; a row has one scale."""

    def drawn(panel: Panel, place: _Place, row: PanelRow) -> Iterator[str]:
        most = max(bar.value for each in row.panels for bar in each.bars)
        yield _line(place.left, place.top, place.left, place.top + place.height, "line")
        for y, bar in _lines(panel, place):
            length = max(bar.value * (place.width - _LABEL) / most, 0.5)
            yield _rect(place.left, y, length, _BAR, COLOURS[bar.subject])
            yield _text(place.left + length + 5, y + _BAR - 1.5, figure(bar.value))

    return _panels(title, unit, titles, rows, drawn)


def spans(title: str, unit: str, titles: Mapping[str, str], rows: Sequence[PanelRow]) -> str:
    """As bars are, but points, and lines from there; all of them have one scale of factors."""
    shown = [bar for row in rows for panel in row.panels for bar in panel.bars]
    first = math.floor(math.log10(min(bar.value for bar in shown)))
    last = math.ceil(math.log10(max(bar.up_to for bar in shown)))

    def drawn(panel: Panel, place: _Place, row: PanelRow) -> Iterator[str]:
        def x(value: float) -> float:
            share = (math.log10(value) - first) / (last - first)
            return place.left + share * (place.width - _SPAN_LABEL)

        for power in range(first, last + 1):
            at, bottom = x(10.0**power), place.top + place.height
            yield _line(at, place.top, at, bottom, "line")
            if row is rows[-1]:
                yield _text(at, bottom + 12, f"{10.0**power:g}", "soft", "middle")
        for y, bar in _lines(panel, place):
            colour = COLOURS[bar.subject]
            middle, begin, end = y + _BAR / 2, x(bar.value), x(bar.up_to)
            yield _line(begin, middle, end, middle, colour.split()[0])
            yield _line(end, y + 2, end, y + _BAR - 2, colour.split()[0])
            yield _circle(begin, middle, colour)
            label = f"{figure(bar.value)} / {figure(bar.up_to)}"
            yield _text(max(end, begin + _POINT) + 5, y + _BAR - 1.5, label)

    return _panels(title, unit, titles, rows, drawn)


def _lines(panel: Panel, place: _Place) -> Iterator[tuple[float, Bar]]:
    for number, bar in enumerate(panel.bars):
        yield place.top + 2 + number * _LINE, bar


def _panels(
    title: str,
    unit: str,
    titles: Mapping[str, str],
    rows: Sequence[PanelRow],
    drawn: Callable[[Panel, _Place, PanelRow], Iterable[str]],
) -> str:
    shown = {bar.subject for row in rows for panel in row.panels for bar in panel.bars}
    pieces, top = _head(title, unit, {name: titles[name] for name in titles if name in shown})
    for row in rows:
        left = _MARGIN + _ROW_TITLE
        width = (WIDTH - _MARGIN - left) / len(row.panels)
        height = max(len(panel.bars) for panel in row.panels) * _LINE + 2.0
        pieces.append(_text(_MARGIN, top + 22 + height / 2, row.title))
        for number, panel in enumerate(row.panels):
            place = _Place(left + number * width, top + 18, width - 10, height)
            pieces.append(_text(place.left, top + 11, panel.title, "soft"))
            pieces += drawn(panel, place, row)
        top += height + 30
    return _svg(title, top + 4, pieces)


def comparison_by_factors(
    title: str, note: str, titles: Mapping[str, str], pairs: Sequence[Pair]
) -> str:
    """On a scale by factors: who is ahead has its side."""
    shown = dict.fromkeys(name for pair in pairs for name in pair.ratios)
    pieces, top = _head(title, note, {name: titles[name] for name in shown})
    top += 22
    left, right = 300, WIDTH - _MARGIN - 14
    logs = [abs(math.log2(each)) for pair in pairs for each in pair.ratios.values()]
    reach = max(1, math.ceil(max(logs)))
    middle = (left + right) / 2
    bottom = top + len(pairs) * _LINE + 4
    step = 1 if reach <= 4 else 2
    for power in range(-(reach // step) * step, reach + 1, step):
        x = middle + (right - left) / 2 * power / reach
        pieces.append(_line(x, top, x, bottom, "line" if power else "middle"))
        factor = f"{2 ** abs(power)}" if power else "even"
        pieces.append(_text(x, top - 4, factor, "soft", "middle"))
    pieces.append(_text(left, top - 18, "← Kafka is ahead", "soft"))
    pieces.append(_text(right, top - 18, "Semel is ahead →", "soft", "end"))
    for number, pair in enumerate(pairs):
        y = top + number * _LINE + _LINE / 2 + 2
        pieces.append(_text(left - 10, y + 4, pair.title, "ink", "end"))
        for name, ratio in pair.ratios.items():
            x = middle + (right - left) / 2 * math.log2(ratio) / reach
            pieces.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_POINT}" class="{COLOURS[name]}"/>'
            )
    return _svg(title, bottom + 10, pieces)


def _head(title: str, note: str, legend: Mapping[str, str]) -> tuple[list[str], float]:
    pieces = [_text(_MARGIN, 26, title, "title ink"), _text(_MARGIN, 43, note, "soft")]
    x = float(_MARGIN)
    for name, words in legend.items():
        pieces += [_rect(x, 54, 12, _BAR, COLOURS[name]), _text(x + 18, 63.5, words)]
        x += 18 + 6.3 * len(words) + 22
    return pieces, 76.0


def _svg(title: str, height: float, pieces: Iterable[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" height="{height:.0f}" role="img">'
    )
    ground = f'<rect width="{WIDTH}" height="{height:.0f}" rx="6" class="ground"/>'
    return "\n".join(
        [
            head,
            f"<title>{escape(title)}</title>",
            _style(),
            ground,
            *pieces,
            "</svg>\n",
        ]
    )


def _style() -> str:
    def rules(colours: Mapping[str, str]) -> str:
        return "\n".join(f".{name} {{ {rule}; }}" for name, rule in colours.items())

    return (
        "<style>\ntext { font: 11px system-ui, sans-serif; }\n"
        ".title { font-size: 14px; font-weight: 600; }\n"
        f"{rules(_LIGHT)}\n.plain {{ {_PLAIN}; }}\n"
        f"@media (prefers-color-scheme: dark) {{\n{rules(_DARK)}\n}}\n</style>"
    )


def _text(x: float, y: float, words: str, kind: str = "ink", anchor: str = "start") -> str:
    of_kind = f' class="{kind}"'
    where = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{of_kind}{where}>{escape(words)}</text>'


def _rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" class="{kind}"/>'


def _circle(x: float, y: float, kind: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_POINT}" class="{kind}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'
