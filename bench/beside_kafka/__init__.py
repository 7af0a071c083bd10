"""Semel beside Apache Kafka: same machine, same clients, in turns."""
