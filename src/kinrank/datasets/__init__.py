"""Data sets: readers of the formats that exist, each with its protocol."""
