"""Finding an application by the name that a command was given: `module:app`."""

import importlib
import sys
from pathlib import Path

from semel.app.application import App
from semel.errors import ConfigError

ATTRIBUTE_DEFAULT = "app"


class CannotLoad(ConfigError):
    """There is no such application; the message says what is missing."""


def load(name: str) -> App:
    """The application of this name, from the current folder or from what is installed."""
    module_name, colon, attribute = name.partition(":")
    if not module_name or (colon and not attribute):
        raise CannotLoad(f"{name!r} is not of the form module:app")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # A module that is there and misses another one is told of by its own traceback.
        if error.name is None or not _is_part_of(error.name, module_name):
            raise
        hint = f": give it as {module_name[:-3]}:app" if module_name.endswith(".py") else ""
        raise CannotLoad(f"there is no module {error.name} in {folder}{hint}") from None
    found = vars(module).get(attribute or ATTRIBUTE_DEFAULT)
    if isinstance(found, App):
        return found
    raise CannotLoad(_missing(module_name, attribute or ATTRIBUTE_DEFAULT, vars(module)))


def _is_part_of(missing: str, module_name: str) -> bool:
    return module_name == missing or module_name.startswith(missing + ".")


def _missing(module_name: str, attribute: str, names: dict[str, object]) -> str:
    if attribute in names:
        kind = type(names[attribute]).__name__
        return f"{module_name}:{attribute} is not a semel.App but of type {kind}"
    apps = [name for name, value in names.items() if isinstance(value, App)]
    there = f"it has {', '.join(apps)}" if apps else "it has no semel.App"
    return f"module {module_name} has no {attribute}: {there}"
