"""What a driver and its tasks say to each other about turns: one message a line, in JSON.

The first message of a task is `Hello`, the others are its moves; what it is sent are answers.
"""

import asyncio
import socket
from typing import NamedTuple, TypeVar

import msgspec

from semel.errors import ProtocolError
from semel.spark.turns import Answer, Attempt, Move

# Of silence, and of messages that nobody acknowledges: within a minute a machine that is gone
# without a word is noticed. Each system has some of these.
_KEEPALIVE = {
    "TCP_KEEPIDLE": 20,
    "TCP_KEEPALIVE": 20,
    "TCP_KEEPINTVL": 10,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 50_000,
}

Message = TypeVar("Message")


class TurnAddress(NamedTuple):
    """Where turns are asked for, and what shows that one may."""

    host: str
    port: int
    secret: str


class Hello(msgspec.Struct, frozen=True):
    secret: str
    attempt: Attempt


_hellos = msgspec.json.Decoder(Hello)
_moves: msgspec.json.Decoder[Move] = msgspec.json.Decoder(Move)
_answers: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def say(writer: asyncio.StreamWriter, message: Hello | Move | Answer) -> None:
    writer.write(msgspec.json.encode(message) + b"\n")


async def hear_hello(reader: asyncio.StreamReader) -> Hello | None:
    return await _hear(reader, _hellos)


async def hear_move(reader: asyncio.StreamReader) -> Move | None:
    return await _hear(reader, _moves)


async def hear_answer(reader: asyncio.StreamReader) -> Answer | None:
    return await _hear(reader, _answers)


async def _hear(
    reader: asyncio.StreamReader, decoder: "msgspec.json.Decoder[Message]"
) -> Message | None:
    """None at the end."""
    try:
        line = await reader.readline()
        return decoder.decode(line) if line else None
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        # The first of them: the line is longer than any message.
        raise ProtocolError(f"not a word about turns: {error}") from error


def keep_alive(writer: asyncio.StreamWriter) -> None:
    connected = writer.get_extra_info("socket")
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
