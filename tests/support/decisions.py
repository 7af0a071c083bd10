"""Decisions about transactions that were not made so."""

from typing import Any

from semel.transactions.commands import Decision


def decided_otherwise(decision: Decision, **fields: Any) -> Decision:
    """As the decision, with these instead of its own."""
    own = {name: getattr(decision, name) for name in Decision.__slots__}
    return Decision(**{**own, **fields})
