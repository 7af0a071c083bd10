"""The transaction coordinator: pure decisions about transactions, and the values they lead to."""
