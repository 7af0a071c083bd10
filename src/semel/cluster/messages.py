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
    is_drained: bool = False
    """It is to lead only if nobody else does."""


class Goodbye(Message, frozen=True):
    """A node that stood by is stopped."""

    node_id: int
    incarnation: bytes


class Prepare(Message, frozen=True):
    """The leader wants to hand over to this node."""


class TakeOver(Message, frozen=True):
    """The leader has handed over to this node, which answers when it leads."""


class Move(Message, frozen=True):
    """Whoever leads is to hand over to this node."""

    node_id: int


class Drain(Message, frozen=True):
    """This node is to lead no more, unless nobody else does; or as before."""

    is_drained: bool = True


class Heard(Message, frozen=True):
    """The leader counts this node among those that stand by."""

    epoch: int
    slot: int
    """The first that is not known to be the leader's."""


class Ready(Message, frozen=True):
    slot: int
    """The next that it will read."""


class Leads(Message, frozen=True):
    """Who leads now."""

    epoch: int
    node_id: int


class Refused(Message, frozen=True):
    """Why not, in a sentence for whoever runs the node or has asked."""

    reason: str
    is_final: bool = True
    """Nothing that time could change."""


AnyRequest = Beat | Goodbye | Prepare | TakeOver | Move | Drain
AnyAnswer = Heard | Ready | Leads | Refused

encode: Final = msgspec.msgpack.Encoder().encode
decode_request: Final[Callable[[bytes], AnyRequest]] = msgspec.msgpack.Decoder(AnyRequest).decode
decode_answer: Final[Callable[[bytes], AnyAnswer]] = msgspec.msgpack.Decoder(AnyAnswer).decode
"""Both raise msgspec.DecodeError."""
