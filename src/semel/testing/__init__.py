"""A real broker for tests, ready in a moment: `with Broker() as broker: ...`."""

from semel.testing.broker import Broker

__all__ = ["Broker"]
