"""What every test shares: properties are judged by their outcome, not by the clock."""

import signal

from hypothesis import settings

settings.register_profile("semel", deadline=None)
settings.load_profile("semel")

# A shell has what it runs in the background ignore interrupts, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)
