"""Neighbours to clusters and graphs."""
