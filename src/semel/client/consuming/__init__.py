"""The consumer of groups: a pure core of membership and positions, and its faces."""
