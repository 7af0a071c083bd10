"""What is said of an exception that an application raised."""


def in_words(error: BaseException) -> str:
    """Its message; its type's name if it fails at telling one, since that is the author's code."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever it raises, the record's own failure is the story.
        return type(error).__name__
