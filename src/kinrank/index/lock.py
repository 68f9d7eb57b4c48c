"""One writer at a time: a lock that the operating system takes back when a process dies."""

from __future__ import annotations

import errno
import os
import sys
import weakref
from contextlib import suppress
from pathlib import Path
from typing import IO

from kinrank.errors import InvalidInputError, LockedError
from kinrank.io import PathLike

_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)

if sys.platform == "win32":
    import msvcrt

    def _take(file: IO[bytes]) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class WriteLock:
    """Held from its making to ``release``, in a file beside the index that goes with it.

    A process that is killed leaves the file, empty, and the next writer takes it.
    """

    def __init__(self, path: PathLike) -> None:
        target = Path(path).resolve()
        self._path = target.with_name(f"{target.name}.lock")
        file = None
        while file is None:
            file = self._taken(path)
        # Also when the holder is forgotten, or the process ends, without a release.
        self._end = weakref.finalize(self, _remove, file, self._path, os.getpid())

    def _taken(self, path: PathLike) -> IO[bytes] | None:
        """The file, locked; None if its last holder removed it meanwhile."""
        try:
            file = self._path.open("ab")
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
            raise InvalidInputError(
                f"{os.fspath(path)} must be in a folder that can be written to, got "
                f"{self._path.parent}: {error.strerror}. To search it needs no writable=True."
            ) from error
        try:
            _take(file)
        except OSError as error:
            file.close()
            raise LockedError(
                f"{os.fspath(path)} must have one writer at a time, got a second: another process "
                "or object has it open for writing."
            ) from error
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), self._path.stat()):
                return file
        file.close()
        return None

    def release(self) -> None:
        """Let others write."""
        self._end()


def _remove(file: IO[bytes], path: Path, owner: int) -> None:
    if os.getpid() != owner:  # a copy of the process: the lock is not its own
        return
    if sys.platform == "win32":  # a file that is open cannot be removed there
        file.close()
    with suppress(OSError):  # another one has it already
        path.unlink()
    file.close()
