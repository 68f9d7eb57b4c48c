"""One writer at a time: a lock that the operating system takes back when a process dies."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO

from kinrank.errors import LockedError
from kinrank.io import PathLike

if sys.platform == "win32":
    import msvcrt

    def _take(file: IO[bytes]) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class WriteLock:
    """Held from its making to ``release``; the file beside the index stays, empty."""

    def __init__(self, path: PathLike) -> None:
        target = Path(path).resolve()
        self._file: IO[bytes] | None = target.with_name(f"{target.name}.lock").open("ab")
        try:
            _take(self._file)
        except OSError as error:
            self.release()
            raise LockedError(
                f"{os.fspath(path)} must have one writer at a time, got a second: another process "
                "or object has it open for writing."
            ) from error

    def release(self) -> None:
        """Let others write."""
        if self._file is not None:
            self._file.close()
            self._file = None
