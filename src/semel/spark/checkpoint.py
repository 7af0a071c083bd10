"""The offsets that a micro-batch has consumed, as Spark's checkpoint holds them."""

import json
import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from semel.spark.offsets import from_json
from semel.types import TopicPartition

_log = logging.getLogger(__name__)

# A version and Spark's own notes come before the offsets of each source.
_LINES_BEFORE = 2


def consumed_offsets(checkpoint: str, batch_id: int) -> dict[TopicPartition, int] | None:
    """Where the batch ends in the topics it reads; None if the checkpoint cannot be read here."""
    try:
        text = _read(checkpoint, f"offsets/{batch_id}")
    except Exception as error:  # noqa: BLE001 - whatever is wrong with a remote store, rows go on.
        _log.warning(
            "consumed offsets are left out of batch %d: %s is not readable here (%s)",
            batch_id,
            checkpoint,
            error,
        )
        return None
    return offsets_in(text.splitlines()[_LINES_BEFORE:])


def offsets_in(lines: Iterable[str]) -> dict[TopicPartition, int]:
    """The offsets of those sources that read topics; others keep something else there."""
    found: dict[TopicPartition, int] = {}
    for line in lines:
        with suppress(ValueError):
            found |= from_json(json.loads(line))
    return found


def _read(checkpoint: str, name: str) -> str:
    parts = urlsplit(checkpoint)
    if parts.scheme in {"", "file"}:
        return (Path(parts.path) / name).read_text(encoding="utf-8")
    from pyarrow.fs import FileSystem

    files, path = FileSystem.from_uri(checkpoint)
    with files.open_input_stream(f"{path}/{name}") as stream:
        return bytes(stream.read()).decode()
