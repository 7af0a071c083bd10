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
    advertised: tuple[dict[str, tuple[str, int]], ...]
    """Where clients find each of them, by the names of listeners."""
    lane_count: int
    sockets: tuple[int, ...]
    """At the first other workers call, at the others clients, by the order of the listeners. They
    live as long as the parent: who connects meanwhile waits in them."""
    listeners: str
    """The setting, as it is for this worker."""
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
        return tuple(
            Neighbour(node_id, *address, advertised)
            for node_id, address, advertised in zip(
                self.node_ids, self.addresses, self.advertised, strict=True
            )
        )

    def leader_index(self, lane: int) -> int:
        """The index of the worker that leads a lane; it never changes."""
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
