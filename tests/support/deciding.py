"""What a coordinator decides where all who take part are at hand."""

from semel.transactions.commands import Command, Context, Decision
from semel.transactions.coordinator import complete_at_once, decide
from semel.transactions.transaction import Transaction


def decide_whole(current: Transaction | None, command: Command, context: Context) -> Decision:
    decision = decide(current, command, context)
    if decision.values and decision.values[-1].is_prepared:
        return complete_at_once(decision, context)
    return decision
