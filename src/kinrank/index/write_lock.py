"""The right to write an index: one object in one process has it at a time.

The operating system takes its locks back when a process dies.
"""

from __future__ import annotations

import errno
import os
import sys
import weakref
from contextlib import suppress
from pathlib import Path
from typing import IO

from kinrank.errors import InvalidInputError, LockedError
from kinrank.io import READ_ONLY, PathLike, release_lock, take_lock


class WriteLock:
    """The right to write an index: of one object in one process, until ``release``.

    Two files are locked: one beside the index, since saving puts another file in its place, and the
    index itself, which may have other names (hard links). A process that is killed leaves the file
    beside it, empty, and the next writer takes it.
    """

    def __init__(self, path: PathLike) -> None:
        """Take the lock of the index at ``path``, which need not be there yet, or raise."""
        self._target = Path(path).resolve()
        self._lock_path = self._target.with_name(f"{self._target.name}.lock")
        self._owner = os.getpid()
        beside = None
        while beside is None:
            beside = self._lock_beside(path)
        self._files = [beside]  # open and locked: the file beside the index, then the index
        # Also when the holder is forgotten, or the process ends, without a release.
        self._end = weakref.finalize(
            self, _release_files, self._files, self._lock_path, self._owner
        )
        if not self._lock_target():
            self.release()
            raise _locked_error(path)

    @property
    def inherited(self) -> bool:
        """Whether this process is a copy of the one that took the lock."""
        return os.getpid() != self._owner

    def check_process(self) -> None:
        """Raise in a copy of the process that took the lock."""
        if self.inherited:
            raise LockedError(
                f"{self._target} is open for writing in the process that this one was forked from "
                f"({self._owner}). Save it there, or save to another file here."
            )

    def move_to_new_file(self) -> None:
        """Lock the new file, after a save has put it in the place of the old one."""
        for old in self._files[1:]:
            _unlock(old)
            self._files.remove(old)
        self._lock_target()

    def release(self) -> None:
        """Let others write."""
        self._end()

    def _lock_beside(self, path: PathLike) -> IO[bytes] | None:
        """Open and lock the file beside the index; None if its last holder removed it meanwhile.

        path : of the index as the user gave it, for messages
        """
        try:
            file = self._lock_path.open("ab")
        except OSError as error:
            if error.errno not in READ_ONLY:
                raise
            folder = self._lock_path.parent
            raise InvalidInputError(
                f"{os.fspath(path)} cannot be opened for writing: {folder} cannot be "
                f"written to ({error.strerror}). To search it, leave out writable=True."
            ) from error
        try:
            take_lock(file)
        except OSError as error:
            file.close()
            raise _locked_error(path) from error
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), self._lock_path.stat()):
                return file
        file.close()
        return None

    def _lock_target(self) -> bool:
        """Lock the index itself, if it is there; False if another has it."""
        # On Windows a lock would keep others from reading it; to open a pipe would wait for ever.
        if sys.platform == "win32" or not self._target.is_file():
            return True
        try:
            file = self._target.open("rb")
        except OSError:  # who reads it is told why
            return True
        try:
            take_lock(file)
        except OSError as error:
            file.close()
            return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
        self._files.append(file)
        return True


def _locked_error(path: PathLike) -> LockedError:
    """The error for an index that somebody else may write."""
    return LockedError(
        f"{os.fspath(path)} is open for writing in another process or object. Close it there "
        "first; to search it, leave out writable=True."
    )


def _unlock(file: IO[bytes]) -> None:
    """Give back the lock of an open file, and close it."""
    if not file.closed:
        # Copies of the process have the file open too: to close it here would not unlock it.
        release_lock(file)
    file.close()


def _release_files(files: list[IO[bytes]], path: Path, owner: int) -> None:
    """Remove the file beside the index, at ``path``, and unlock all; files : that one first.

    owner : the id of the process that took the lock; nothing is done in a copy of it
    """
    if os.getpid() != owner:  # a copy of the process: the lock is not its own
        return
    if sys.platform == "win32":  # a file that is open cannot be removed there
        _unlock(files[0])
    with suppress(OSError):  # another one has it already
        path.unlink()
    for file in files:
        _unlock(file)
