"""What went wrong on another machine, in our own words."""

from __future__ import annotations

from typing import Any

from kinrank.errors import ClusterError
from kinrank.parallel import Range

_LOST = (
    "WorkerCrashedError",
    "NodeDiedError",
    "ObjectLostError",
    "ObjectFetchTimedOutError",
    "LocalRayletDiedError",
)


def is_lost(error: BaseException, ray: Any) -> bool:
    """Whether a worker, a node or what it held in memory is gone, so that the block can go on."""
    return isinstance(_cause(error, ray), tuple(getattr(ray.exceptions, name) for name in _LOST))


def explained(
    error: BaseException, ray: Any, name: str, block: Range, attempts: int
) -> BaseException:
    """The error to raise for a block that cannot be finished."""
    cause, (low, high) = _cause(error, ray), block
    place = f"the stage {name!r}, rows {low} to {high}"
    smaller = max(1, (high - low) // 2)
    if isinstance(cause, (MemoryError, ray.exceptions.OutOfMemoryError)):
        return ClusterError(
            f"A worker ran out of memory in {place}: blocks must be smaller than {high - low} "
            f"rows, use block_size={smaller} (or give workers more memory)."
        )
    if is_lost(cause, ray):
        return ClusterError(
            f"Workers were lost {attempts} times in {place}; the last time: {first_line(cause)} "
            f"If their machines ran out of memory, use block_size={smaller}."
        )
    if isinstance(cause, OSError):
        return ClusterError(f"A worker could not read or write in {place}: {cause}")
    if isinstance(cause, ray.exceptions.RayError):
        return ClusterError(f"The cluster failed in {place}: {first_line(cause)}")
    return cause


def _cause(error: BaseException, ray: Any) -> BaseException:
    """What a task raised, without Ray's wrapping."""
    while isinstance(error, ray.exceptions.RayTaskError) and isinstance(error.cause, BaseException):
        error = error.cause
    return error


def first_line(error: BaseException) -> str:
    """What an error says, without what follows."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].strip()
