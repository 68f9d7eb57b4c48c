"""Which pages of its arguments a kernel touches, as the processor counts them (Linux)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kinrank.runs.ray.handles import Array

SMALL = 1 << 16  # bytes from which an array lies in the store, apart from other memory

_CLEAR, _MAPS = Path("/proc/self/clear_refs"), Path("/proc/self/smaps")


@dataclass
class Touched:
    """How many bytes lie in pages that were touched; known when the block is over."""

    bytes: int = 0


@contextmanager
def touched(arrays: list[Array]) -> Iterator[Touched]:
    """Count the pages of some arrays that the block touches; 0 where the system does not tell.

    The processor marks pages as they are used; the marks are taken back first. Memory that is
    mapped together with the arrays is counted with them, so they should have mappings of their own.
    """
    found = Touched()
    addresses = [array.ctypes.data for array in arrays]
    try:
        _CLEAR.write_text("1", encoding="ascii")
    except OSError:
        yield found
        return
    yield found
    found.bytes = _referenced(addresses)


def _referenced(addresses: list[int]) -> int:
    total, wanted = 0, False
    with _MAPS.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            head = line.split(" ", 1)[0]
            if head == "Referenced:":
                total += int(line.split()[1]) * 1024 if wanted else 0
            elif not head.endswith(":"):
                begin, _, end = head.partition("-")
                wanted = any(int(begin, 16) <= at < int(end, 16) for at in addresses)
    return total
