"""The one law: decide, append and apply in one step; reply when the journal is durable."""
