"""Where long arrays lie that no stage fills: here, in memory.

Runs in files and on other machines have objects of the same form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


class Arrays(Protocol):
    """Makes arrays, and remembers some of them for a run that goes on later."""

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array to write into."""

    def kept(self, name: str, make: Callable[[], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """The array that ``make`` returns, or the one it returned before the run was stopped."""


class InMemory:
    """Arrays of this process, which remembers nothing when it ends."""

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """See Arrays."""
        return np.empty(shape, dtype)

    def kept(self, name: str, make: Callable[[], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """See Arrays."""
        del name
        return make()


IN_MEMORY = InMemory()
