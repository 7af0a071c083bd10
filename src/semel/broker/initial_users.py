"""The file of users that are made at a start, with their passwords."""

import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path

from semel.errors import ConfigError


def initial_users(file: str) -> Mapping[str, bytes]:
    """Their passwords by their names. Raises ConfigError, which shows nothing of the file."""
    if not file:
        return {}
    try:
        with Path(file).open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            text = opened.read().decode()
        found = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"initial.users: {file}: {(error.strerror or '').lower()}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        # What it says of the place might be a password.
        raise ConfigError(f'initial.users: {file}: lines have to be NAME = "PASSWORD"') from None
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise ConfigError(
            f"initial.users: everybody on this machine can read or write the passwords in {file}: "
            f"chmod 600 {file}, or mount it with that mode"
        )
    for name, password in found.items():
        if not isinstance(password, str) or not password or not name:
            raise ConfigError(f"initial.users: {file}: the password of {name!r} is no text")
    return {name: password.encode() for name, password in found.items()}
