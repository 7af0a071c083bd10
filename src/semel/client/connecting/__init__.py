"""One connection to one broker: where it is, how it is secured, what passes over it."""
