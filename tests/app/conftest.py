"""Every test has topics of its own."""

from support.app_topics import topics as topics
