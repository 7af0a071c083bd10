"""Commands, and a broker that they talk to."""

from support.command_line import run as run
