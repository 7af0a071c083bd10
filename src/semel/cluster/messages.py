"""What nodes say to each other: a request in msgpack, and the answer to it.

Fields are only ever added, at the end and with a default: a node of another version leaves out what
it does not know.
"""

from collections.abc import Callable
from typing import Final

import msgspec


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class Beat(Message, frozen=True):
    """A node that stands by is alive, and where it is."""

    node_id: int
    incarnation: bytes
    """Drawn at the start of the process: two of one id are told apart by it."""
    host: str
    port: int
    slot: int
    """The next that it will read."""


class Heard(Message, frozen=True):
    """The leader counts this node among those that stand by."""

    epoch: int
    slot: int
    """The first that is not known to be the leader's."""


class Refused(Message, frozen=True):
    """Why not, in a sentence for whoever runs the node or has asked."""

    reason: str
    is_final: bool = True
    """Nothing that time could change."""


AnyRequest = Beat
AnyAnswer = Heard | Refused

encode: Final = msgspec.msgpack.Encoder().encode
decode_request: Final[Callable[[bytes], AnyRequest]] = msgspec.msgpack.Decoder(AnyRequest).decode
decode_answer: Final[Callable[[bytes], AnyAnswer]] = msgspec.msgpack.Decoder(AnyAnswer).decode
"""Both raise msgspec.DecodeError."""
