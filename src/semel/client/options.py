"""What all options that are numbers have in common."""

from collections.abc import Mapping
from numbers import Real

from semel.errors import ConfigError


def check_numbers(given: Mapping[str, object], kinds: Mapping[str, object]) -> None:
    """Refuse text where an option is declared as a number: nothing can be compared with it."""
    for name, value in given.items():
        if kinds.get(name) in (int, float) and not isinstance(value, Real):
            raise ConfigError(f"{name} is {value!r}, and must be a number")
