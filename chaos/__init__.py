"""Real nodes under real clients: leaders are killed, frozen, cut off; what was told is judged."""
