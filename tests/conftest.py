"""What every test shares: properties are judged by their outcome, not by the clock."""

from hypothesis import settings

settings.register_profile("semel", deadline=None)
settings.load_profile("semel")
