"""Topics by id on the wire, by name for whoever asks (KIP-516).

A message may say both. Where the broker knows topics by their ids and the caller has given the id
of each, the ids are sent, so that a topic that was deleted and made again is not taken for the one
that the caller knows; the reply then has the names again. Otherwise names are sent, in the newest
version that has them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from semel.wire.messages import fetch, offset_commit, offset_fetch, produce, txn_offset_commit

NO_ID: Final = bytes(16)


class _ByName(NamedTuple):
    version_max: int
    """The newest version that has names."""
    asked: Callable[[Any], list[Any]]
    answered: Callable[[Any], list[Any]]
    name: str


_APIS: Final[Mapping[int, _ByName]] = {
    produce.API_KEY: _ByName(
        12, lambda request: request.topic_data, lambda reply: reply.responses, "name"
    ),
    fetch.API_KEY: _ByName(
        12, lambda request: request.topics, lambda reply: reply.responses, "topic"
    ),
    offset_commit.API_KEY: _ByName(
        9, lambda request: request.topics, lambda reply: reply.topics, "name"
    ),
    txn_offset_commit.API_KEY: _ByName(
        5, lambda request: request.topics, lambda reply: reply.topics, "name"
    ),
}

_NAMES_UNTIL: Final[Mapping[int, int]] = {offset_fetch.API_KEY: 9}
"""What a group has committed is asked for by names: it goes when its topic does."""

Names = Mapping[bytes, str]


def version_for(api_key: int, message: object, version: int) -> tuple[int, Names | None]:
    """The version to send the message in, and the names of its topics if ids are sent."""
    api = _APIS.get(api_key)
    if api is None:
        return min(version, _NAMES_UNTIL.get(api_key, version)), None
    if version <= api.version_max:
        return version, None
    names = {topic.topic_id: getattr(topic, api.name) for topic in api.asked(message)}
    if NO_ID in names:
        return api.version_max, None
    return version, names


def give_names(api_key: int, reply: object, names: Names) -> None:
    """Name the topics of a reply that has their ids."""
    api = _APIS[api_key]
    for topic in api.answered(reply):
        setattr(topic, api.name, names.get(topic.topic_id, ""))
