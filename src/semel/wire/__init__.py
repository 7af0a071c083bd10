"""Kafka's protocol as bytes: the table of APIs, their messages, framing. Pure."""
