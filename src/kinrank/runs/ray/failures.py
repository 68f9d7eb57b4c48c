"""What went wrong on another machine, in our own words."""

from __future__ import annotations

from typing import Any

from kinrank.errors import ClusterError


def is_lost(error: BaseException, ray: Any) -> bool:
    """Whether a worker, a node or what it held in memory is gone, so that the block can go on."""
    gone = (
        ray.exceptions.WorkerCrashedError,
        ray.exceptions.NodeDiedError,
        ray.exceptions.ObjectLostError,
        ray.exceptions.ObjectFetchTimedOutError,
        ray.exceptions.LocalRayletDiedError,
    )
    return isinstance(_cause(error, ray), gone)


def explained(
    error: BaseException, ray: Any, name: str, block: tuple[int, int], attempts: int
) -> BaseException:
    """The error to raise for a block that cannot be finished."""
    cause, (low, high) = _cause(error, ray), block
    where = f"the stage {name!r}, rows {low} to {high}"
    if isinstance(cause, (MemoryError, ray.exceptions.OutOfMemoryError)):
        smaller = max(1, (high - low) // 2)
        return ClusterError(
            f"A worker ran out of memory in {where}: blocks must be smaller than {high - low} "
            f"rows, use block_size={smaller} (or give workers more memory)."
        )
    if is_lost(cause, ray):
        return ClusterError(
            f"Workers were lost {attempts} times in {where}; the last time: {first_line(cause)} "
            f"If their machines ran out of memory, use block_size={max(1, (high - low) // 2)}."
        )
    if isinstance(cause, OSError):
        return ClusterError(f"A worker could not read or write in {where}: {cause}")
    if isinstance(cause, ray.exceptions.RayError):
        return ClusterError(f"The cluster failed in {where}: {first_line(cause)}")
    return cause


def _cause(error: BaseException, ray: Any) -> BaseException:
    """What a task raised, without Ray's wrapping."""
    while isinstance(error, ray.exceptions.RayTaskError) and isinstance(error.cause, BaseException):
        error = error.cause
    return error


def first_line(error: BaseException) -> str:
    """What an error says, without what follows."""
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
