"""Attacks the broker and checks what its clients saw: a deterministic simulator and its oracle."""
