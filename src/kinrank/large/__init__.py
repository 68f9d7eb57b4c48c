"""More rows than memory: stages in files, a budget that is kept, runs that can be stopped."""

from __future__ import annotations

from kinrank.large.plan import Plan, make_plan
from kinrank.large.runner import DiskRunner
from kinrank.large.sizes import parse_bytes

__all__ = ["DiskRunner", "Plan", "make_plan", "parse_bytes"]
