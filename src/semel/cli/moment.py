"""Moments for people to read: in UTC, to the millisecond, as the cluster keeps them."""

from datetime import UTC, datetime


def moment_in_words(moment_ms: int) -> str:
    """`2024-05-01 12:00:00.123`."""
    moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    return moment.isoformat(" ", "milliseconds").removesuffix("+00:00")


def time_in_words(moment_ms: int) -> str:
    """`12:00:00.123`, where the day is known from elsewhere."""
    return moment_in_words(moment_ms).partition(" ")[2]
