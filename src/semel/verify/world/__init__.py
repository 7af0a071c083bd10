"""The simulated world: its loop, its network, and the machine under test."""
