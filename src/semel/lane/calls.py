"""What lanes say to each other: about transactions that several of them take part in, and about
what their partitions hold.

A call about a transaction names it by its key, so that it can be sent again: said twice, it does
what it does once. Fields are only ever added, at the end and with a default.
"""

from typing import Final

import msgspec

from semel.errors import SemelError
from semel.transactions.key import TransactionKey
from semel.types import ProducerEpoch, ProducerId, Term


class LaneAway(SemelError):
    """Nobody is known to lead the lane, or whoever does has not answered in time.

    Whether the call was heard is not known then. It can be sent again.
    """


class LaneCall(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class LaneReply(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


# To the coordinator of a transactional id


class AskToJoin(LaneCall, frozen=True):
    """A first write of a transaction has come to these partitions, which lie in the lane that
    asks. Answered by `MayJoin` once that is written, or by `Refused`."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    dialect: int
    partitions: tuple[tuple[str, int], ...]
    lane: int
    term: Term
    """In which that lane asks."""


class AskOutcomes(LaneCall, frozen=True):
    """How these have ended, which the lane that asks still has open. Answered by `Told`.

    With `when_durable` only what a power loss would not take any more is told.
    """

    keys: tuple[TransactionKey, ...]
    when_durable: bool = False


class AskToAbort(LaneCall, frozen=True):
    """An operator wants this to end. Answered by `Heard` once it is open no more, for good, or by
    `Refused`."""

    key: TransactionKey
    transactional_id: str


# To a lane that takes part


class AskToPrepare(LaneCall, frozen=True):
    """Whether the lane is sure to have all that was written there. Answered by `Voted` when the
    answer is durable, and never changes then."""

    key: TransactionKey
    transactional_id: str
    term: Term
    """In which the lane has joined."""


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    key: TransactionKey
    commit: bool
    producer_epoch: ProducerEpoch
    """Which the markers carry."""
    coordinator_epoch: Term
    term: Term = Term(-1)
    """In which the lane that is told has joined; older than every term if it was only named."""


class TellOutcomes(LaneCall, frozen=True):
    """Answered by `Heard` once the lane has ended them, which may not be durable."""

    outcomes: tuple[Outcome, ...]


class ConfirmEnds(LaneCall, frozen=True):
    """Answered by `Confirmed` when what was heard of them is durable: nobody asks any more."""

    outcomes: tuple[Outcome, ...]


# To the lane of a partition


class AskLags(LaneCall, frozen=True):
    """How much is unread of these partitions from these offsets on. Answered by `Lags`."""

    positions: tuple[tuple[str, int, int], ...]
    """Topic, partition, offset."""


AnyCall = AskToJoin | AskOutcomes | AskToAbort | AskToPrepare | TellOutcomes | ConfirmEnds | AskLags


# Replies


class Refused(LaneReply, frozen=True):
    """By the error code that the client is to hear."""

    code: int
    message: str = ""


class MayJoin(LaneReply, frozen=True):
    key: TransactionKey


class Told(LaneReply, frozen=True):
    """One for each that was asked for: None if it is open yet."""

    outcomes: tuple[Outcome | None, ...]


class Voted(LaneReply, frozen=True):
    yes: bool


class Heard(LaneReply, frozen=True):
    pass


class Confirmed(LaneReply, frozen=True):
    pass


class Lag(msgspec.Struct, frozen=True, array_like=True):
    record_count: int
    since_ms: int
    """The time of the first batch that is unread, by the clock of who produced it; -1: nothing is
    unread, or it is not known."""


class Lags(LaneReply, frozen=True):
    """One for each that was asked for: None if there is no such partition."""

    lags: tuple[Lag | None, ...]


AnyReply = Refused | MayJoin | Told | Voted | Heard | Confirmed | Lags

_encoder: Final = msgspec.msgpack.Encoder()


def encode_call(call: AnyCall) -> bytes:
    return _encoder.encode(call)


def encode_reply(reply: AnyReply) -> bytes:
    return _encoder.encode(reply)


decode_call = msgspec.msgpack.Decoder(AnyCall).decode
"""Raises msgspec.MsgspecError."""
decode_reply = msgspec.msgpack.Decoder(AnyReply).decode
"""Raises msgspec.MsgspecError."""
