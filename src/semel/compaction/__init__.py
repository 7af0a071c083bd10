"""Compaction: of the records with one key the newest stays. What stays of which batches. Pure.

A pass over a partition has two halves. `keys.KeyMap` reads what is dirty and learns the newest
offset of each key; `passes.CompactionPass` then reads the log from its start and gives what stays.
Law: what a pass gives replaces what it was given all at once or, piece by piece, from the front,
the entries of aborted transactions together with their markers. If the end came first, a tombstone
could be gone while the value that it deletes is there, and a marker while its entry is, by which
readers step over all that the producer has written since.
"""
