"""For tests that need plain Python, where others run on compiled modules as well."""

import pytest

from semel.lane import lane

_IS_COMPILED = not str(lane.__file__).endswith(".py")

plain_python = pytest.mark.skipif(
    _IS_COMPILED, reason="it replaces a method, and compiled modules do not look it up"
)
plain_frames = pytest.mark.skipif(
    _IS_COMPILED, reason="it looks at what a function has come to, and compiled ones do not show it"
)
