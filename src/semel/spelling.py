"""What to say of a name that does not exist: which one may have been meant. And of one or many, and
of an address."""

import difflib
from collections.abc import Iterable
from urllib.parse import urlsplit

SHOWN_MAX = 100
"""Characters of a name or value that a refusal shows."""
_LIKENESS_MIN = 0.7
"""Below it a suggestion misleads: of letters that two names share in the same order."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    return f"there is no {kind} {name[:SHOWN_MAX]!r}{hint_at(name, known)}"


def hint_at(name: str, known: Iterable[str]) -> str:
    """The nearest of the known names as a question; nothing if none is near."""
    as_written = {each.lower(): each for each in known}
    # A client may send a name of megabytes, and the comparison is not linear.
    name = name[:SHOWN_MAX].lower()
    near = difflib.get_close_matches(name, as_written, n=1, cutoff=_LIKENESS_MIN)
    return f"; did you mean {as_written[near[0]]!r}?" if near else ""


def noun(count: int, one: str, many: str | None = None) -> str:
    """The word for so many; with an s at the end unless the word for many is given."""
    return one if count == 1 else many or f"{one}s"


def shown_url(url: str) -> str:
    """Without a name, a password or a query, which may hold secrets."""
    parts = urlsplit(url)
    scheme = f"{parts.scheme}://" if parts.scheme else ""
    return f"{scheme}{parts.netloc.rpartition('@')[2]}{parts.path}"
