"""The journal: one sequence of frames, which is all that a crash leaves of a lane."""
