"""Our own commands beside the peers."""

from support.command_line import run as run
