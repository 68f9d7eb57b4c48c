"""A page that people want to read: tables, curves, queries, examples, distances."""

from __future__ import annotations

from kinrank.evaluate.reporting.build import report

__all__ = ["report"]
