"""What a topic may be called."""

import re
from typing import Final

from semel.errors import ConfigError, InvalidTopic

NAME_LENGTH_MAX: Final = 249
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_name(name: object) -> None:
    """Raises InvalidTopic, and ConfigError if it is no text at all."""
    if not isinstance(name, str):
        raise ConfigError(f"a topic is named by text, not by {name!r}")
    if not name:
        raise InvalidTopic("a topic needs a name")
    if name in (".", ".."):
        raise InvalidTopic(f"a topic cannot be named {name!r}")
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidTopic(f"the name has {len(name)} characters, more than {NAME_LENGTH_MAX}")
    if not _LEGAL_NAME.fullmatch(name):
        raise InvalidTopic(
            f"topic name {name!r} has characters other than letters, digits, '.', '_' and '-'"
        )
