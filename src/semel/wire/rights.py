"""What a request needs to be allowed to its client, in Kafka's words and with its numbers."""

import enum
from typing import Final, NamedTuple

CLUSTER_NAME: Final = "kafka-cluster"
"""The one name that a resource of type CLUSTER has."""


class ResourceType(enum.IntEnum):
    __hash__ = int.__hash__
    """The one of an enumeration is Python, and decisions are remembered by these."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Operation(enum.IntEnum):
    __hash__ = int.__hash__

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


OPERATIONS_ON: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""What can be done with a resource, where clients may ask what they may do (KIP-430)."""


class Right(NamedTuple):
    """To do something with a resource, whichever name it has."""

    resource_type: ResourceType
    operation: Operation

    def __str__(self) -> str:
        operation = self.operation.name.title().replace("_", "")
        return f"{operation} {self.resource_type.name.lower().replace('_', ' ')}"


READ_TOPIC: Final = Right(ResourceType.TOPIC, Operation.READ)
WRITE_TOPIC: Final = Right(ResourceType.TOPIC, Operation.WRITE)
CREATE_TOPIC: Final = Right(ResourceType.TOPIC, Operation.CREATE)
DELETE_TOPIC: Final = Right(ResourceType.TOPIC, Operation.DELETE)
ALTER_TOPIC: Final = Right(ResourceType.TOPIC, Operation.ALTER)
DESCRIBE_TOPIC: Final = Right(ResourceType.TOPIC, Operation.DESCRIBE)
DESCRIBE_TOPIC_CONFIGS: Final = Right(ResourceType.TOPIC, Operation.DESCRIBE_CONFIGS)
ALTER_TOPIC_CONFIGS: Final = Right(ResourceType.TOPIC, Operation.ALTER_CONFIGS)

READ_GROUP: Final = Right(ResourceType.GROUP, Operation.READ)
DELETE_GROUP: Final = Right(ResourceType.GROUP, Operation.DELETE)
DESCRIBE_GROUP: Final = Right(ResourceType.GROUP, Operation.DESCRIBE)
DESCRIBE_GROUP_CONFIGS: Final = Right(ResourceType.GROUP, Operation.DESCRIBE_CONFIGS)
ALTER_GROUP_CONFIGS: Final = Right(ResourceType.GROUP, Operation.ALTER_CONFIGS)

CREATE_IN_CLUSTER: Final = Right(ResourceType.CLUSTER, Operation.CREATE)
DELETE_IN_CLUSTER: Final = Right(ResourceType.CLUSTER, Operation.DELETE)
ALTER_CLUSTER: Final = Right(ResourceType.CLUSTER, Operation.ALTER)
DESCRIBE_CLUSTER: Final = Right(ResourceType.CLUSTER, Operation.DESCRIBE)
CLUSTER_ACTION: Final = Right(ResourceType.CLUSTER, Operation.CLUSTER_ACTION)
DESCRIBE_CLUSTER_CONFIGS: Final = Right(ResourceType.CLUSTER, Operation.DESCRIBE_CONFIGS)
ALTER_CLUSTER_CONFIGS: Final = Right(ResourceType.CLUSTER, Operation.ALTER_CONFIGS)
IDEMPOTENT_WRITE: Final = Right(ResourceType.CLUSTER, Operation.IDEMPOTENT_WRITE)

WRITE_ID: Final = Right(ResourceType.TRANSACTIONAL_ID, Operation.WRITE)
DESCRIBE_ID: Final = Right(ResourceType.TRANSACTIONAL_ID, Operation.DESCRIBE)

NEEDED: Final[dict[int, tuple[Right, ...]]] = {
    0: (WRITE_ID, WRITE_TOPIC, DESCRIBE_TOPIC),
    1: (READ_TOPIC, DESCRIBE_TOPIC),
    2: (DESCRIBE_TOPIC,),
    3: (DESCRIBE_TOPIC, CREATE_IN_CLUSTER, CREATE_TOPIC, DESCRIBE_CLUSTER),
    8: (READ_GROUP, READ_TOPIC, DESCRIBE_TOPIC),
    9: (DESCRIBE_GROUP, DESCRIBE_TOPIC),
    10: (DESCRIBE_GROUP, DESCRIBE_ID),
    11: (READ_GROUP,),
    12: (READ_GROUP,),
    13: (READ_GROUP,),
    14: (READ_GROUP,),
    15: (DESCRIBE_GROUP,),
    16: (DESCRIBE_CLUSTER, DESCRIBE_GROUP),
    17: (),
    18: (),
    19: (CREATE_IN_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC_CONFIGS),
    20: (DELETE_IN_CLUSTER, DELETE_TOPIC, DESCRIBE_TOPIC),
    21: (DELETE_TOPIC,),
    22: (WRITE_ID, IDEMPOTENT_WRITE, WRITE_TOPIC),
    23: (CLUSTER_ACTION, DESCRIBE_TOPIC),
    24: (WRITE_ID, WRITE_TOPIC),
    25: (WRITE_ID, READ_GROUP),
    26: (WRITE_ID,),
    27: (ALTER_CLUSTER, CLUSTER_ACTION),
    28: (WRITE_ID, READ_GROUP, READ_TOPIC, DESCRIBE_TOPIC),
    29: (DESCRIBE_CLUSTER,),
    30: (ALTER_CLUSTER,),
    31: (ALTER_CLUSTER,),
    32: (DESCRIBE_TOPIC_CONFIGS, DESCRIBE_CLUSTER_CONFIGS, DESCRIBE_GROUP_CONFIGS),
    33: (ALTER_TOPIC_CONFIGS, ALTER_CLUSTER_CONFIGS, ALTER_GROUP_CONFIGS),
    35: (DESCRIBE_CLUSTER,),
    36: (),
    37: (ALTER_TOPIC,),
    42: (DELETE_GROUP,),
    44: (ALTER_TOPIC_CONFIGS, ALTER_CLUSTER_CONFIGS, ALTER_GROUP_CONFIGS),
    46: (DESCRIBE_CLUSTER,),
    47: (DELETE_GROUP, READ_TOPIC),
    48: (DESCRIBE_CLUSTER_CONFIGS,),
    49: (ALTER_CLUSTER_CONFIGS,),
    50: (DESCRIBE_CLUSTER,),
    51: (ALTER_CLUSTER,),
    55: (DESCRIBE_CLUSTER,),
    60: (DESCRIBE_CLUSTER,),
    61: (READ_TOPIC,),
    65: (DESCRIBE_ID, DESCRIBE_TOPIC),
    66: (DESCRIBE_ID,),
    74: (DESCRIBE_CLUSTER_CONFIGS,),
    75: (DESCRIBE_TOPIC,),
}
"""What the requests of an API ask for, by its key: each of them of what the request names, or one
of several, or only of what else is shown. Which that is its handler says; it asks for nothing that
does not stand here. An API that needs nothing says so."""
