"""What one setting of a broker is: its default, what it may be, how it is read and written."""

import dataclasses
import re
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from semel.access.rights import super_users
from semel.broker.endpoints import endpoints
from semel.errors import ConfigError
from semel.spelling import SHOWN_MAX, shown_url
from semel.store.prices import PriceList

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""Kafka's name for the way in which rules are read here."""

NO_AUTHORIZER = "none"
"""Said of a folder that holds rules, which are to count for nothing."""

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,30}")


class Secret(str):
    """Shown to nobody."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'" if self else "''"


class Url(str):
    """Shown without a query, which may hold a secret."""

    __slots__ = ()

    @classmethod
    def parse(cls, name: str, text: str) -> "Url":
        """Raises ConfigError, with nothing of the address."""
        try:
            has_user = "@" in urlsplit(text).netloc
        except ValueError:
            raise ConfigError(f"{name} is no address") from None
        if has_user:
            raise ConfigError(f"{name}: a user and a password in an address are not sent")
        return cls(text)

    def __repr__(self) -> str:
        return repr(shown_url(self))


def setting(
    default: int | bool | str,
    about: str,
    *,
    least: int = 0,
    most: int = INT64_MAX,
    is_fixed: bool = False,
    one_of: tuple[str, ...] = (),
    is_text: bool = False,
    of_listeners: bool = False,
    is_limit: bool = False,
) -> Any:
    """A fixed one holds as long as the broker runs; all others count as soon as they are set. One
    of listeners may be another for each, behind `listener.name.NAME.`, and is fixed. A limit may be
    set for each listener, besides that for all."""
    metadata = {
        "about": about,
        "least": least,
        "most": most,
        "is_fixed": is_fixed or of_listeners,
        "one_of": one_of,
        "is_text": is_text or bool(one_of) or isinstance(default, Secret | Url),
        "of_listeners": of_listeners or is_limit,
    }
    return dataclasses.field(default=default, metadata=metadata)


class SettingDescription(NamedTuple):
    default: str
    kind: str
    about: str
    is_fixed: bool
    """Whether it holds as long as the broker runs."""
    least: int
    most: int
    is_secret: bool = False


def description(field: "dataclasses.Field[Any]") -> SettingDescription:
    return SettingDescription(
        text_of(field.default),
        _kind(field),
        field.metadata["about"],
        field.metadata["is_fixed"],
        field.metadata["least"],
        field.metadata["most"],
        is_secret(field),
    )


def _kind(field: "dataclasses.Field[Any]") -> str:
    """As DescribeConfigs names it."""
    if isinstance(field.default, bool):
        return "boolean"
    if isinstance(field.default, str):
        return "string" if field.metadata["is_text"] else "list"
    return "int" if field.metadata["most"] <= INT32_MAX else "long"


def setting_name(field: "dataclasses.Field[Any]") -> str:
    return field.name.replace("_", ".")


def is_secret(field: "dataclasses.Field[Any]") -> bool:
    return isinstance(field.default, Secret)


def text_of(value: object) -> str:
    if isinstance(value, Url):
        return shown_url(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_bool(name: str, value: object) -> bool:
    text = text_of(value).lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{name}={value}: must be true or false")
    return text == "true"


def parse_int(name: str, value: object, least: int, most: int) -> int:
    text = str(value)
    # Python would also take "1_000", blanks, other scripts' digits, and thousands of digits.
    if not _WHOLE_NUMBER.fullmatch(text):
        raise ConfigError(f"{name}={text[:SHOWN_MAX]}: must be a whole number")
    number = int(text)
    if not least <= number <= most:
        raise ConfigError(f"{name}={number}: must be between {least} and {most}")
    return number


def parse(field: "dataclasses.Field[Any]", value: object) -> object:
    name = setting_name(field)
    if isinstance(field.default, bool):
        return parse_bool(name, value)
    if isinstance(field.default, Url):
        return Url.parse(name, str(value).strip())
    if isinstance(field.default, str):
        return _parse_text(field, str(value).strip())
    return parse_int(name, value, field.metadata["least"], field.metadata["most"])


def _parse_access(name: str, text: str) -> str:
    if name == "authorizer.class.name":
        if text not in ("", AUTHORIZER, NO_AUTHORIZER):
            raise ConfigError(f"{name}={text[:SHOWN_MAX]}: must be {AUTHORIZER}, or none")
        return text
    try:
        super_users(text)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from error
    return text


def _parse_text(field: "dataclasses.Field[Any]", text: str) -> str:
    name, one_of = setting_name(field), field.metadata["one_of"]
    if is_secret(field):
        return Secret(text)
    if field.name == "store_prices":
        PriceList.parse(text)
    elif field.name in ("listeners", "advertised_listeners"):
        return ",".join(map(str, endpoints(name, text)))
    elif field.name in ("authorizer_class_name", "super_users"):
        return _parse_access(name, text)
    elif one_of:
        return _one_of(name, text, one_of)
    elif not field.metadata["is_text"]:
        return _parse_policy(name, text)
    return text


def _one_of(name: str, text: str, known: tuple[str, ...]) -> str:
    for each in known:
        if text.lower() == each.lower():
            return each
    raise ConfigError(f"{name}={text[:SHOWN_MAX]}: must be of {', '.join(known)}")


def _parse_policy(name: str, value: object) -> str:
    policies = [part.strip() for part in str(value).split(",")]
    if not all(part in ("delete", "compact") for part in policies):
        raise ConfigError(f"{name}={str(value)[:SHOWN_MAX]}: must be of delete, compact")
    return ",".join(policies)
