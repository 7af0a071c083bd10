"""What every test shares: properties are judged by their outcome, not by the clock."""

import signal

from hypothesis import settings

from support import drawing as drawing

settings.load_profile("repeated")

# A shell has what it runs in the background ignore interrupts, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)
