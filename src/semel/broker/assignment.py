"""What the parent tells a worker, in one line on its standard input, where no list of processes
shows it."""

import os
from pathlib import Path
from typing import Final

import msgspec

from semel.broker.neighbour import Neighbour

_STDIN: Final = 0


class Assignment(msgspec.Struct, frozen=True):
    node_ids: tuple[int, ...]
    """Of all workers."""
    own_id: int
    addresses: tuple[tuple[str, int], ...]
    """Where the workers reach each other, in the order of their ids."""
    advertised: tuple[tuple[str, int], ...]
    """Where clients find them; none if that is where they found one of them."""
    lane_count: int
    listening: int
    """The socket, which lives as long as the parent: who connects meanwhile waits in it."""
    key: bytes
    """By which they know each other."""
    folder: str
    is_synced: bool
    config: Path | None
    settings: tuple[str, ...]
    metrics: str | None
    log_level: str = "info"
    log_format: str = "text"

    def neighbours(self) -> tuple[Neighbour, ...]:
        """All workers, in the order of their ids."""
        advertised: tuple[tuple[str, int] | None, ...] = self.advertised
        return tuple(
            Neighbour(node_id, *address, shown)
            for node_id, address, shown in zip(
                self.node_ids,
                self.addresses,
                advertised or (None,) * len(self.addresses),
                strict=True,
            )
        )

    def leader_index(self, lane: int) -> int:
        """Which of the workers leads a lane, ever."""
        return lane % len(self.node_ids)

    def own_lanes(self) -> tuple[int, ...]:
        index = self.node_ids.index(self.own_id)
        return tuple(lane for lane in range(self.lane_count) if self.leader_index(lane) == index)


def encoded(assignment: Assignment) -> bytes:
    return msgspec.json.encode(assignment, enc_hook=str) + b"\n"


def read_assignment() -> Assignment:
    """Blocking. Raises EOFError if the parent has gone already."""
    said = bytearray()
    # Byte by byte, since whatever is read beyond the line would be lost to who watches for the end.
    while not said.endswith(b"\n"):
        piece = os.read(_STDIN, 1)
        if not piece:
            raise EOFError("whoever started this worker has ended")
        said += piece
    return msgspec.json.decode(said, type=Assignment, dec_hook=_path)


def _path(kind: type, value: object) -> object:
    return Path(str(value)) if kind is Path else value
