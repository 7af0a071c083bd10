"""What a client is called by its certificate: the name in it, and Kafka's rules that map it.

The name is written as Java writes it (RFC 2253): CN=Ann\\, B=x,OU=dev,O=Semel Ltd.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from semel.errors import ConfigError

Subject = Iterable[Iterable[tuple[str, str]]]
"""As Python's ssl module reads it: the names of a certificate in its order, each of one or more
attributes."""

_SHORT: Final = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""Those that have a short name there."""
_EMAIL: Final = "emailAddress", "1.2.840.113549.1.9.1"
_IA5_STRING: Final = 0x16
_ESCAPED: Final = re.compile(r'[,+"\\<>;]')
_RULE: Final = re.compile(
    r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)", re.IGNORECASE
)
_GROUP: Final = re.compile(r"\$(\d+)")


def distinguished_name(subject: Subject) -> str:
    parts = ["+".join(_attribute(*each) for each in names) for names in subject]
    return ",".join(reversed(parts))


def _attribute(name: str, value: str) -> str:
    if name == _EMAIL[0]:
        # Java has no short name for it, and shows what it does not know as it is encoded.
        encoded = bytes((_IA5_STRING, len(value.encode()) & 0x7F)) + value.encode()
        return f"{_EMAIL[1]}=#{encoded.hex()}"
    shown = _ESCAPED.sub(r"\\\g<0>", value)
    if shown[:1] in ("#", " "):
        shown = "\\" + shown
    if len(shown) > 1 and shown.endswith(" "):
        shown = shown[:-1] + "\\ "
    return f"{_SHORT.get(name, name)}={shown}"


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """None: any name, as it is."""
    replacement: str
    case: str

    def applied(self, name: str) -> str | None:
        """None if it does not fit."""
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        found = _GROUP.sub(lambda group: match[int(group[1])] or "", self.replacement)
        return {"L": found.lower(), "U": found.upper()}.get(self.case.upper(), found)


class MappingRules:
    """`ssl.principal.mapping.rules`: the first that fits says what a client is called."""

    def __init__(self, rules: Iterable[_Rule]) -> None:
        self._rules = tuple(rules)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ConfigError."""
        rules, position, text = [], 0, text.strip() or "DEFAULT"
        while position < len(text):
            match = _RULE.match(text, position)
            if match is None:
                raise _refusal(text[position:])
            rules.append(_rule(match))
            position = match.end()
            rest = text[position:].lstrip()
            if rest and not rest.startswith(","):
                raise _refusal(rest)
            position = len(text) - len(rest[1:].lstrip())
        return cls(rules)

    def name_of(self, subject: Subject) -> str | None:
        """None if no rule fits, or nothing is left of the name."""
        name = distinguished_name(subject)
        for rule in self._rules:
            if (found := rule.applied(name)) is not None:
                return found or None
        return None


def _rule(match: re.Match[str]) -> _Rule:
    if match[1]:
        return _Rule(None, "", "")
    try:
        pattern = re.compile(match[2].replace(r"\/", "/"))
    except re.error as error:
        raise ConfigError(f"ssl.principal.mapping.rules: {match[2]!r}: {error}") from None
    replacement = match[3].replace(r"\/", "/")
    numbers = [int(each) for each in _GROUP.findall(replacement)]
    if any(number > pattern.groups for number in numbers):
        raise ConfigError(f"ssl.principal.mapping.rules: {match[2]!r} has no group {max(numbers)}")
    return _Rule(pattern, replacement, match[4])


def _refusal(rest: str) -> ConfigError:
    return ConfigError(
        f"ssl.principal.mapping.rules: {rest[:80]!r} is neither DEFAULT nor "
        "RULE:pattern/replacement/ with L or U behind it"
    )
