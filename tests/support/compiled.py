"""For tests that replace a method: compiled modules call each other without looking it up."""

import pytest

from semel.lane import lane

plain_python = pytest.mark.skipif(
    not str(lane.__file__).endswith(".py"), reason="it replaces a method, and this is compiled"
)
