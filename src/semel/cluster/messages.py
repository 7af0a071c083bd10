"""What nodes say to each other: a request in msgpack, and the answer to it.

Fields are only ever added, at the end and with a default: a node of another version leaves out what
it does not know.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from semel.access.rules import StoredRule
from semel.access.scram import Credential, Mechanism


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class Rates(msgspec.Struct, frozen=True, array_like=True):
    """What a node asks of the store at present, each second."""

    puts: float = 0.0
    gets: float = 0.0
    lists: float = 0.0
    bytes_written: float = 0.0
    bytes_read: float = 0.0
    month_usd: float = 0.0
    """What a month costs that goes on so; the leader's has in it what is kept."""


class About(msgspec.Struct, frozen=True, array_like=True):
    """What a node says of itself, for whoever looks at the cluster."""

    version: str = ""
    rates: Rates = Rates()


class LedLane(msgspec.Struct, frozen=True, array_like=True):
    """A lane as the node that leads it knows it."""

    lane: int
    epoch: int
    term: int
    slot: int
    """The next that it will write."""
    puts: float = 0.0
    """Each second, at present."""
    bytes_written: float = 0.0


class Trouble(msgspec.Struct, frozen=True, array_like=True):
    """Why a node cannot take a lane that is placed there."""

    lane: int
    reason: str


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
    about: About = About()
    levels: tuple[int, int] = (1, 1)
    """The oldest and the newest that it can read."""
    worked_in: int = 0
    """The slot of lane 0 up to which the lanes that it leads are in line with the topics."""
    is_leaving: bool = False
    """It will go as soon as others lead what it leads."""
    lanes: list[LedLane] = []
    """Those that it leads."""
    troubles: list[Trouble] = []
    listeners: list[tuple[str, str, int]] = []
    """Name, host and port of each: where clients find it."""


class Goodbye(Message, frozen=True):
    """A node that stood by is stopped."""

    node_id: int
    incarnation: bytes


class Prepare(Message, frozen=True):
    """The leader wants to hand over to this node."""


class TakeOver(Message, frozen=True):
    """The leader has handed over to this node, which answers when it leads."""


class Release(Message, frozen=True):
    """A node on which lane 0 has placed a lane wants to have it from who leads it."""

    lane: int
    node_id: int
    slot: int
    """The next that it will read."""


class Leading(Message, frozen=True):
    """A node has taken a lane, and says so to all before lane 0 does."""

    lane: int
    epoch: int
    node_id: int
    host: str
    port: int


class Move(Message, frozen=True):
    """Whoever leads is to hand over to this node; lane 0, unless another is named."""

    node_id: int
    lane: int = 0


class AddLanes(Message, frozen=True):
    """Let there be so many lanes. There are never fewer."""

    lane_count: int


class Rebalance(Message, frozen=True):
    """Let lanes that were placed by hand move again, and spread them evenly now."""


class Drain(Message, frozen=True):
    """This node is to lead no more, unless nobody else does; or as before."""

    is_drained: bool = True


class Describe(Message, frozen=True):
    """How the cluster is, as the leader sees it."""


class Upgrade(Message, frozen=True):
    """Let the cluster write what the leader's version can and all that live can read."""


UNANSWERED: Final = -1
"""In place of the number of a request that nobody waits for an answer to."""


class Numbered(Message, frozen=True):
    """A request, or the answer to the one of this number: many are under way on one connection."""

    number: int
    said: bytes


class LaneCall(Message, frozen=True):
    """What one lane has to say to another, in its own words."""

    lane: int
    call: bytes


class LaneReply(Message, frozen=True):
    reply: bytes


class Forwarded(Message, frozen=True):
    """A client has asked this of a node that cannot answer, as who leads can. It may do there what
    the client may."""

    api_key: int
    version: int
    request: bytes
    principal: str
    listener: str
    host: str
    """The client's."""
    address: tuple[str, int]
    """At which the client finds the leader."""


class ForwardedReply(Message, frozen=True):
    response: bytes


class Follow(Message, frozen=True):
    """A worker that does not lead the catalogue wants to know of it, and waits until there is
    something new."""

    node_id: int
    telling: bytes
    """Which series of answers it has heard; empty if none."""
    heard: int
    """How many of them it has worked in. It hears all anew if that is not how many were given."""
    lanes: Sequence[tuple[int, int]]
    """Those that it leads, with their epochs."""


class TopicTold(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """So it is, whatever was told of this name before."""

    name: str
    topic_id: bytes
    config: dict[str, str]
    partition_count: int
    first_lane: int
    lane_count: int


class TopicGone(msgspec.Struct, frozen=True, array_like=True, tag=True):
    name: str


class BrokerTold(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """What is set for a broker, or for all by an empty name."""

    name: str
    config: dict[str, str]


class UserTold(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """All credentials that a user has; none if it is gone."""

    name: str
    credentials: Sequence[tuple[int, int, bytes, bytes, bytes]]

    def __repr__(self) -> str:
        return f"UserTold({self.name!r})"


class RuleTold(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A rule of the access list that is there, or is not."""

    rule: StoredRule
    is_there: bool


class QuotasTold(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """All quotas that are set for an entity; none if they are gone."""

    user: str | None
    client_id: str | None
    ip: str | None
    values: dict[str, float]


AnyNews = TopicTold | TopicGone | BrokerTold | UserTold | RuleTold | QuotasTold


def credentials_of(
    told: Sequence[tuple[int, int, bytes, bytes, bytes]],
) -> dict[Mechanism, Credential]:
    known = {}
    for number, iterations, salt, stored_key, server_key in told:
        mechanism = Mechanism(number)
        known[mechanism] = Credential(mechanism, iterations, salt, stored_key, server_key)
    return known


class Told(Message, frozen=True):
    """What is new in the catalogue; all of it is durable."""

    telling: bytes
    number: int
    """The first of a series begins with everything there is."""
    news: Sequence[AnyNews]
    is_all: bool
    """Nothing is left to be told of the time at which it was said."""
    lanes: Sequence[tuple[int, int, int]]
    """Every lane whose leader is known: its number, its epoch, the node."""
    cluster_id: bytes
    salt_key: bytes = b""
    """From which the salts of users come that there are not."""


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


class LaneCount(Message, frozen=True):
    lane_count: int


class Balanced(Message, frozen=True):
    moved: int
    """Lanes."""


class LaneStatus(msgspec.Struct, frozen=True, array_like=True):
    lane: int
    node_id: int | None
    """Who leads it; None if nobody is known to."""
    epoch: int
    term: int
    slot: int
    placed: int | None
    """The node that is to lead it. Lane 0 is not placed."""
    is_pinned: bool
    puts: float = 0.0
    bytes_written: float = 0.0
    trouble: str = ""
    """Why it is not led."""


class NodeStatus(msgspec.Struct, frozen=True, array_like=True):
    node_id: int
    host: str
    port: int
    about: About
    heard_s: float | None
    """How long ago it was heard of; None: this is the leader, or it was not heard of yet."""
    slots_behind: int
    is_drained: bool
    levels: tuple[int, int] = (1, 1)


class Described(Message, frozen=True):
    node_id: int
    """Of the leader."""
    epoch: int
    term: int
    led_s: float
    """For how long it has led."""
    slot: int
    """The next that it will write."""
    detection_s: float
    nodes: list[NodeStatus]
    """Those that live, by their ids, the leader among them."""
    level: int = 1
    """What the cluster writes."""
    lanes: list[LaneStatus] = []


class Upgraded(Message, frozen=True):
    level: int


class Refused(Message, frozen=True):
    """Why not, in a sentence for whoever runs the node or has asked."""

    reason: str
    is_final: bool = True
    """Nothing that time could change."""


AnyRequest = (
    Beat
    | Goodbye
    | Prepare
    | TakeOver
    | Release
    | Leading
    | Move
    | AddLanes
    | Rebalance
    | Drain
    | Describe
    | Upgrade
    | Numbered
    | LaneCall
    | Follow
    | Forwarded
)
AnyAnswer = (
    Heard
    | Ready
    | Leads
    | LaneCount
    | Balanced
    | Described
    | Upgraded
    | Refused
    | Numbered
    | LaneReply
    | Told
    | ForwardedReply
)

encode: Final = msgspec.msgpack.Encoder().encode
decode_request: Final[Callable[[bytes], AnyRequest]] = msgspec.msgpack.Decoder(AnyRequest).decode
decode_answer: Final[Callable[[bytes], AnyAnswer]] = msgspec.msgpack.Decoder(AnyAnswer).decode
"""Both raise msgspec.DecodeError."""
