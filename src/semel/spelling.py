"""What to say of a name that does not exist: which one may have been meant."""

import difflib
from collections.abc import Iterable

SHOWN_MAX = 100
"""Characters of a name or value that a refusal shows."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    # A client may send a name of megabytes, and the comparison is not linear.
    name = name[:SHOWN_MAX]
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)
    return f"there is no {kind} {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
