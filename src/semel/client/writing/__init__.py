"""Batches that are encoded already, stored as they are: alone, or in transactions."""
