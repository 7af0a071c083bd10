"""What the clients of a run do."""
