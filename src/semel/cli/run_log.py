"""What a running application logs, shown beside its view: above the table, or on standard error."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from semel.cli.live import is_in_table, terminal
from semel.cli.output import note, note_json

_STYLES = {logging.ERROR: "red", logging.WARNING: "yellow"}


@contextmanager
def shown_log(*, as_json: bool, quiet: bool) -> Iterator[None]:
    """Show what Semel logs, unless the application has set up a log of its own for it."""
    logger = logging.getLogger("semel")
    if logger.hasHandlers():
        yield
        return
    shown: logging.Handler = _OnStandardError()
    if as_json:
        shown = _AsJson()
    elif is_in_table(as_json=as_json, quiet=quiet):
        shown = _AboveTable()
    logger.addHandler(shown)
    try:
        yield
    finally:
        logger.removeHandler(shown)


class _OnStandardError(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(self.format(record))


class _AsJson(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, object] = getattr(record, "fields", {})
        line = {"level": record.levelname.lower(), "message": record.getMessage()}
        note_json({**line, **fields})


class _AboveTable(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        from rich.text import Text

        style = _STYLES.get(record.levelno, "")
        terminal().print(Text(self.format(record), style), soft_wrap=True)
