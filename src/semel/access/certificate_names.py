"""What a client is called by its certificate: Kafka's rules map the name in it."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from semel.errors import ConfigError

_RULE: Final = re.compile(r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_IN_REPLACEMENT: Final = re.compile(r"\\(.)|\$(\d+)")
"""What is escaped, and what stands for a group."""
_OF_GROUP: Final = re.compile(r"(?<!\\)(?:\\\\)*\$[1-9]")
_BETWEEN: Final = re.compile(r"\s*,[\s,]*")


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """None: any name, as it is."""
    replacement: str
    case: str

    def applied(self, name: str) -> str | None:
        """None if it does not fit."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        # As Java does it: what matches behind a whole match, as `.*` does, is replaced once more.
        found = self.pattern.sub(self._replaced, name)
        return {"L": found.lower(), "U": found.upper()}.get(self.case, found)

    def _replaced(self, match: re.Match[str]) -> str:
        def part(found: re.Match[str]) -> str:
            if found[1]:
                return found[1]
            count, digits = match.re.groups, found[2]
            number, behind = int(digits[0]), 1
            while behind < len(digits) and 10 * number + int(digits[behind]) <= count:
                number, behind = 10 * number + int(digits[behind]), behind + 1
            # A group that there is not stands for itself, as in Kafka.
            return (match[number] or "") + digits[behind:] if number <= count else found[0]

        return _IN_REPLACEMENT.sub(part, self.replacement)


class MappingRules:
    """`ssl.principal.mapping.rules`: the first that fits says what a client is called."""

    def __init__(self, rules: Iterable[_Rule]) -> None:
        self._rules = tuple(rules)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ConfigError."""
        rules, text = [], text.strip().strip(", \n") or "DEFAULT"
        position = 0
        while position < len(text):
            match = _RULE.match(text, position)
            if match is None:
                raise _refusal(text[position:])
            rules.append(_rule(match))
            position = match.end()
            between = _BETWEEN.match(text, position)
            if between is None and position < len(text):
                raise _refusal(text[position:])
            position = len(text) if between is None else between.end()
        return cls(rules)

    def name_of(self, name: str) -> str | None:
        """None if no rule fits, or nothing is left of the name."""
        for rule in self._rules:
            if (found := rule.applied(name)) is not None:
                return found or None
        return None


def _rule(match: re.Match[str]) -> _Rule:
    if match[1]:
        return _Rule(None, "", "")
    try:
        pattern = re.compile(match[2])
    except re.error as error:
        raise ConfigError(f"ssl.principal.mapping.rules: {match[2]!r}: {error}") from None
    if not pattern.groups and _OF_GROUP.search(match[3]):
        # By Kafka nobody would come in.
        raise ConfigError(f"ssl.principal.mapping.rules: {match[2]!r} has no groups")
    return _Rule(pattern, match[3], match[4])


def _refusal(rest: str) -> ConfigError:
    return ConfigError(
        f"ssl.principal.mapping.rules: {rest[:80]!r} is neither DEFAULT nor "
        "RULE:pattern/replacement/ with L or U behind it"
    )
