"""What has settings, and where a value comes from, as requests number them."""

from enum import Enum
from typing import NamedTuple

from semel.wire.rights import CLUSTER_NAME, Right
from semel.wire.rights import ResourceType as Resources


class ResourceType(Enum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def name_in(right: Right, name: str) -> str:
    """Under which name the right is asked for: that of a topic or group; settings of brokers are
    the cluster's."""
    return CLUSTER_NAME if right.resource_type is Resources.CLUSTER else name


class ConfigSource(Enum):
    TOPIC = 1
    DYNAMIC_BROKER = 2
    """Set for this broker while it runs."""
    DYNAMIC_DEFAULT_BROKER = 3
    """Set for all brokers while they run."""
    STATIC_BROKER = 4
    """Given when the broker was started."""
    DEFAULT = 5


class ConfigSynonym(NamedTuple):
    """One of the values that a setting could have, under the name that it has there."""

    name: str
    value: str
    source: ConfigSource
