"""What to say of a name that does not exist: which one may have been meant."""

import difflib
from collections.abc import Iterable

SHOWN_MAX = 100
"""Characters of a name or value that a refusal shows."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    # A client may send a name of megabytes, and the comparison is not linear.
    name = name[:SHOWN_MAX]
    as_written = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), as_written, n=1, cutoff=0.0)
    hint = f"; did you mean {as_written[near[0]]!r}?" if near else ""
    return f"there is no {kind} {name!r}{hint}"
