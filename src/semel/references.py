"""Values that are written elsewhere, so that no secret has to stand in a setting.

${env:NAME}             what the environment has under this name
${file:PATH}            a file, without the end of its last line
${file:PATH:KEY}        one property of a file
${dir:FOLDER:FILE}      a file in a folder

All but the second are as Kafka's own providers of configuration have them.
"""

import os
import re
from pathlib import Path

from semel.errors import ConfigError
from semel.properties import parse_properties, read_text

_REFERENCE = re.compile(r"\$\{(env|file|dir):([^}:]*)(?::([^}]*))?\}")


def is_reference(text: str) -> bool:
    return _REFERENCE.search(text) is not None


def dereferenced(text: str) -> str:
    """The text with what it refers to in the place of each reference."""
    return _REFERENCE.sub(lambda match: _value(match[1], match[2], match[3]), text)


def _value(kind: str, place: str, key: str | None) -> str:
    if kind == "env":
        if place not in os.environ:
            raise ConfigError(f"${{env:{place}}}: the environment has no {place}")
        return os.environ[place]
    file = Path(place).expanduser()
    if kind == "dir":
        return read_text(file / (key or "")).rstrip("\r\n")
    if key is None:
        return read_text(file).rstrip("\r\n")
    properties = parse_properties(read_text(file))
    if key not in properties:
        raise ConfigError(f"${{file:{place}:{key}}}: the file has no {key}")
    return properties[key]
