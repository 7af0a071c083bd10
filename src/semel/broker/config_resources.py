"""The kinds of things that have settings, as requests number them."""

from enum import Enum


class ResourceType(Enum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
