"""What a cluster holds, seen and changed from outside: topics, groups, transactions."""
