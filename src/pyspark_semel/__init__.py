"""Spark looks for top-level modules of this name, and registers the source that it finds."""

from semel.spark.source import SemelSource as DefaultSource

__all__ = ["DefaultSource"]
