"""The producer: a pure core that keeps once-and-in-order, and two faces over it."""
