"""Who comes in, and what they may do: pure decisions about principals and their credentials."""
