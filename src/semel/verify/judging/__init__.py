"""Judges what clients of any cluster were told, real or simulated, by anomalies that have names."""
