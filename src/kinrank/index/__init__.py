"""A gallery that lives, and queries that come one at a time."""

from kinrank.index.calibrate import Calibration
from kinrank.index.explain import Explanation
from kinrank.index.index import Index
from kinrank.index.opening import open_index as open  # noqa: A004  users write kinrank.open
from kinrank.index.state import list_length

__all__ = ["Calibration", "Explanation", "Index", "list_length", "open"]
