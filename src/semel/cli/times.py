"""Moments and durations as users write and read them: `90s`, `1h`; `1 h 30 min`."""

import re
from datetime import UTC, datetime

_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+)(ms|s|m|h|d)")


def moment_in_words(moment_ms: int) -> str:
    """`2024-05-01 12:00:00.123`: in UTC, to the millisecond, as the cluster keeps it."""
    moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    return moment.isoformat(" ", "milliseconds").removesuffix("+00:00")


def time_in_words(moment_ms: int) -> str:
    """`12:00:00.123`, where the day is known from elsewhere."""
    return moment_in_words(moment_ms).partition(" ")[2]


def parse_duration_ms(text: str) -> int | None:
    """A whole number with its unit; None for anything else."""
    match = _DURATION.fullmatch(text)
    return int(match[1]) * _UNIT_MS[match[2]] if match else None


def duration_in_words(duration_ms: int) -> str:
    """With its two largest units, since nobody asks for the seconds of a day."""
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1000:.3g} s"
    minutes, seconds = divmod(duration_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    first = next(index for index, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count)
