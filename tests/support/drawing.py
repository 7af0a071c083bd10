"""How properties draw their cases: the same on every run, or new ones from a seed (`make fuzz`)."""

import os

from hypothesis import settings
from hypothesis.internal.conjecture import providers

settings.register_profile("repeated", deadline=None, derandomize=True)
settings.register_profile(
    "fuzz",
    deadline=None,
    database=None,
    print_blob=True,
    max_examples=int(os.environ.get("SEMEL_FUZZ_EXAMPLES", "100")),
)

# Hypothesis also draws from the constants of modules that happen to be imported, so that a case
# would depend on the tests that ran before it in the same process.
providers._get_local_constants = providers.Constants  # type: ignore[attr-defined]
