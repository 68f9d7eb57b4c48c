"""How kernels are compiled: the one place where numba is configured.

A kernel is serial, releases the GIL, works on a range of rows and is cached on disk. ``fastmath``
stays off, but for two named flags where a kernel asks for them: sums that may be regrouped so that
they vectorise (the order is then fixed by the compiled code, not by threads or blocks).

Compiling is what a first call waits for. A count that is handed to another kernel begins as
``np.int64(0)``: a plain 0 has a literal type of its own, for which that kernel would be compiled
once more. Rows are copied in loops: assigning slices brings numba's message about their shapes,
and its formatting of text takes seconds to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numba

Function: TypeAlias = Callable[..., Any]

REGROUP = {"reassoc", "contract", "nsz"}


def kernel(function: Function) -> Function:
    """Compile a kernel on first use."""
    return _compile(function, False)


def summing_kernel(function: Function) -> Function:
    """Compile a kernel whose sums may be regrouped."""
    return _compile(function, REGROUP)


def _compile(function: Function, fastmath: bool | set[str]) -> Function:
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": fastmath}
    try:
        compiled: Function = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder can be written to: compile in every process
        compiled = numba.njit(**options)(function)
    return compiled
