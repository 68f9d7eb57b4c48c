"""A gallery that lives, and queries that come one at a time."""

from kinrank.index.calibrate import Calibration
from kinrank.index.core import Index
from kinrank.index.core import open_index as open  # noqa: A004  users write kinrank.open
from kinrank.index.explain import Explanation
from kinrank.index.settings import list_length
from kinrank.index.store_answers import SearchStore

__all__ = ["Calibration", "Explanation", "Index", "SearchStore", "list_length", "open"]
