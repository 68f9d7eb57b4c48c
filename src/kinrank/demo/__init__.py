"""The demonstration: handwritten digits, ranked before and after."""

from __future__ import annotations

from kinrank.demo.experiment import Demo, Outcome, run

__all__ = ["Demo", "Outcome", "run"]
