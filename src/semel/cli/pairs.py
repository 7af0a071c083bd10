"""Options of the form KEY=VALUE."""

from collections.abc import Iterable

from semel.errors import ConfigError


def parse_pairs(texts: Iterable[str]) -> list[tuple[str, str]]:
    pairs = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError(f"{text!r} is not of the form KEY=VALUE")
        pairs.append((key, value))
    return pairs
