"""The file of --config: settings, and options of `semel serve`, in TOML."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from semel.errors import ConfigError
from semel.spelling import hint_at

OPTIONS_TABLE: Final = "serve"
"""The table of a file that holds options of `semel serve`, without their dashes."""

_REFERENCES: Final = ({"file"}, {"env"})
"""Tables that say where a value stands."""


def settings_in(file: Path) -> dict[str, object]:
    """By their names, however they are nested. Raises ConfigError."""
    told = _read_toml(file)
    told.pop(OPTIONS_TABLE, None)
    return _flatten(told, file.parent)


def options_in(file: Path) -> list[str]:
    """What the file says of the options of `semel serve`, as a command line. Raises ConfigError."""
    table = _read_toml(file).get(OPTIONS_TABLE, {})
    if not isinstance(table, Mapping):
        raise ConfigError(f"{file}: {OPTIONS_TABLE} must be a table of options")
    told: list[str] = []
    for name, value in table.items():
        option = f"--{name.replace('_', '-')}"
        values = value if isinstance(value, list) else [value]
        for each in values:
            if isinstance(each, Mapping):
                raise ConfigError(f"{file}: {OPTIONS_TABLE}.{name} must not be a table")
            if each is True:
                told.append(option)
            elif each is not False:
                told += [option, str(each)]
    return told


def _read_toml(file: Path) -> dict[str, object]:
    try:
        told = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from error
    for name, value in told.items():
        is_mistyped = name != OPTIONS_TABLE and isinstance(value, Mapping)
        if is_mistyped and (hint := hint_at(name, [OPTIONS_TABLE])):
            raise ConfigError(f"{file}: there is no table [{name}]{hint}")
    return told


def _flatten(table: Mapping[str, object], folder: Path, prefix: str = "") -> dict[str, object]:
    """`num.partitions = 3` in TOML is a table `num` with a key `partitions`."""
    flat: dict[str, object] = {}
    for key, value in table.items():
        if not isinstance(value, Mapping):
            flat[prefix + key] = value
        elif value.keys() in _REFERENCES and all(isinstance(each, str) for each in value.values()):
            flat[prefix + key] = _reference(value, folder)
        else:
            flat.update(_flatten(value, folder, f"{prefix}{key}."))
    return flat


def _reference(table: Mapping[str, str], folder: Path) -> str:
    if "env" in table:
        return f"${{env:{table['env']}}}"
    return f"${{file:{folder / Path(table['file']).expanduser()}}}"
