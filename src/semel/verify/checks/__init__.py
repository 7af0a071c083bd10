"""The promises that a history is held against."""
