"""Applications that read records, work on them and write others: all of it or nothing of it."""
