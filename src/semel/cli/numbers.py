"""Numbers as users write them."""

import re
from collections.abc import Sequence
from typing import Any

from cyclopts import Token

_WHOLE = re.compile(r"[+-]?\d+")


def whole_number(kind: Any, tokens: Sequence[Token]) -> int:
    """As text says it: the library would round 3.5 to 4."""
    text = tokens[0].value
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)
