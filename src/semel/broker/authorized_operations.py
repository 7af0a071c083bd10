"""What a client may do, where it asks for that (KIP-430): everything, as there is no authorizer.

Each is a set of bits, numbered as Kafka numbers the operations of access lists.
"""

from typing import Final

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = (1 << code for code in range(3, 9))
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = (
    1 << code for code in range(9, 13)
)
_CONFIGS = _DESCRIBE_CONFIGS | _ALTER_CONFIGS

NOT_ASKED_FOR: Final = -(2**31)
"""In their place in the answer to who did not ask."""

ON_CLUSTER: Final = _CREATE | _ALTER | _DESCRIBE | _CLUSTER_ACTION | _CONFIGS | _IDEMPOTENT_WRITE
ON_TOPIC: Final = _READ | _WRITE | _CREATE | _DELETE | _ALTER | _DESCRIBE | _CONFIGS
ON_GROUP: Final = _READ | _DELETE | _DESCRIBE | _CONFIGS
