"""Files of names and values as Java writes them, and as Kafka's own commands take them."""

import re
from pathlib import Path

from semel.errors import ConfigError

_PROPERTY = re.compile(r"((?:[^\\\s=:]|\\.)+)\s*[=:]?\s*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_BACKSLASHES_AT_END = re.compile(r"\\*\Z")


def read_properties(file: Path) -> dict[str, str]:
    return parse_properties(read_text(file))


def read_text(file: Path) -> str:
    """Refused with the name of the file."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: {(error.strerror or '').lower()}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: it is not UTF-8 at byte {error.start}") from None


def parse_properties(text: str) -> dict[str, str]:
    """Names and values. Lines that begin with # or ! are comments; a \\ at the end goes on."""
    found: dict[str, str] = {}
    logical = ""
    for line in [*text.splitlines(), ""]:
        part = line.lstrip()
        if not logical and part.startswith(("#", "!")):
            continue
        logical += part
        if len(_BACKSLASHES_AT_END.findall(logical)[0]) % 2:
            logical = logical[:-1]
            continue
        if match := _PROPERTY.fullmatch(logical):
            found[_unescaped(match[1])] = _unescaped(match[2])
        logical = ""
    return found


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(
        lambda match: chr(int(match[1], 16)) if match[1] else _ESCAPED.get(match[2], match[2]),
        text,
    )
