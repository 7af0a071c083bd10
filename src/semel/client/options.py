"""What the options of producers, consumers and listeners have in common."""

from collections.abc import Iterable, Mapping
from numbers import Real

from semel.errors import ConfigError
from semel.spelling import unknown_name


def check_names(
    kind: str, given: Iterable[str], known: Mapping[str, object], also: Iterable[str] = ()
) -> None:
    """Refuse what is no option; `also` may have been meant, and is an argument of its own."""
    for name in given:
        if name not in known:
            raise ConfigError(unknown_name(f"{kind} option", name, (*also, *known)))


def check_numbers(given: Mapping[str, object], kinds: Mapping[str, object]) -> None:
    """Refuse text where an option is declared as a number: nothing can be compared with it."""
    for name, value in given.items():
        if kinds.get(name) in (int, float) and not isinstance(value, Real):
            raise ConfigError(f"{name} is {value!r}, and must be a number")
