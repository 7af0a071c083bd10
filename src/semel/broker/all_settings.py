"""Every setting of brokers and topics, in words: for `semel config list` and docs/settings.md."""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from semel.broker.config import about_settings
from semel.broker.setting import INT32_MAX, INT64_MAX
from semel.broker.topic_config import TOPIC_SETTINGS

Kind = Literal["broker", "topic"]

_UNITS: Final = (
    (".ms", "ms"),
    (".seconds", "s"),
    (".minutes", "minutes"),
    (".bytes", "bytes"),
    (".size", "bytes"),
)
_COUNTS: Final = frozenset({"group.max.size"})
"""Whose names would say otherwise."""
_DURATIONS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_SIZES: Final = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


class Setting(NamedTuple):
    name: str
    default: str
    unit: str
    """Empty for what is no amount."""
    values: str
    """That it may have."""
    is_fixed: bool
    """Whether it holds as long as the broker runs; others count as soon as they are set."""
    about: str
    broker_setting: str = ""
    """Of a topic's: the broker's setting that gives the default."""

    @property
    def shown_default(self) -> str:
        """The default as one would say it: `7 d`, and not how many milliseconds."""
        if self.default == str(INT64_MAX):
            return "unlimited"
        scales = {"ms": _DURATIONS, "bytes": _SIZES}.get(self.unit, ())
        amount = int(self.default) if scales else 0
        for scale, sign in scales:
            if amount > 0 and amount % scale == 0:
                return f"{amount // scale} {sign}"
        return self.default


def settings(kind: Kind) -> Iterator[Setting]:
    if kind == "broker":
        for name, described in about_settings().items():
            values = _values(described.kind, described.least, described.most)
            yield Setting(
                name,
                described.default,
                _unit(name),
                values,
                described.is_fixed,
                described.about,
            )
    else:
        for name, setting in TOPIC_SETTINGS.items():
            values = ", ".join(setting.choices) or _values(
                setting.kind, setting.least, setting.most
            )
            yield Setting(
                name,
                setting.default,
                _unit(name),
                values,
                False,
                setting.about,
                setting.broker_setting or "",
            )


def _unit(name: str) -> str:
    if name in _COUNTS:
        return ""
    return next((unit for ending, unit in _UNITS if name.endswith(ending)), "")


def _values(kind: str, least: int, most: int) -> str:
    match kind:
        case "boolean":
            return "true, false"
        case "int" | "long":
            return f"{least} or more" if most in (INT32_MAX, INT64_MAX) else f"{least} to {most}"
        case "double":
            return "0 to 1"
        case "list":
            return "delete, compact"
        case _:
            return "text"
