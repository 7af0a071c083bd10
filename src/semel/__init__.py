"""Semel: a log that speaks Kafka's protocol and delivers exactly once."""

__version__ = "0.1.0"
