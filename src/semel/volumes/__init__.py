"""What lives on of the journal: batches in immutable files, sorted by partition and offset."""
