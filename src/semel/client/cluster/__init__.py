"""The cluster behind the connections: who leads what, where logs end, what is committed."""
