"""A gallery that lives, and queries that come one at a time."""
