"""Projections: whitening, and what a collection teaches about its own metric."""
