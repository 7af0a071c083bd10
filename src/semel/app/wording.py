"""What is said of an exception that an application raised."""

_LINE_SIZE_MAX = 500


def in_words(error: BaseException) -> str:
    """Its message; its type's name if it fails at telling one, since that is the author's code."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever it raises, the record's own failure is the story.
        return type(error).__name__


def in_one_line(error: BaseException) -> str:
    """Its message, which may quote a whole record, as far as it fits into a line."""
    line = " ".join(in_words(error).split())
    return line if len(line) <= _LINE_SIZE_MAX else f"{line[:_LINE_SIZE_MAX]}…"
