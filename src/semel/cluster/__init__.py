"""Nodes that share a store: which of them leads, and what makes them one cluster."""
