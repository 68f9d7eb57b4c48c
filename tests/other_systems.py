"""Windows and macOS as far as kinrank notices them, played on Linux.

Windows removes and replaces no file that a process has open or mapped,
and locks bytes of a file instead of the file.
"""

import os
import shutil
import sys
from pathlib import Path


class System:
    """The module ``sys`` of another system, for one module of ours."""

    def __init__(self, platform):
        self.platform = platform

    def __getattr__(self, name):
        return getattr(sys, name)


def mapped_files():
    """The files that this process has mapped."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return {line.split(maxsplit=5)[5] for line in lines if len(line.split(maxsplit=5)) == 6}


def open_files():
    """The files that this process has open."""
    names = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            names.add(str(link.readlink()))
        except FileNotFoundError:  # the one that lists them
            continue
    return names


def refuse_if_used(path):
    if os.path.realpath(path) in mapped_files() | open_files():
        raise PermissionError(13, "The process cannot access the file", str(path))


class ByteLocks:
    """Windows' ``msvcrt``: locks of bytes, each of one opening of a file."""

    LK_NBLCK = 2
    LK_UNLCK = 0

    def __init__(self):
        self.locked = {}

    def locking(self, number, mode, count):
        assert count == 1
        status = os.fstat(number)
        place = (status.st_dev, status.st_ino, os.lseek(number, 0, os.SEEK_CUR))
        holder = self.locked.get(place)
        if mode == self.LK_UNLCK:
            if holder != number:
                raise PermissionError(13, "Permission denied")
            del self.locked[place]
        elif holder is not None and self._is_open(holder, place):
            raise PermissionError(13, "Permission denied")
        else:
            self.locked[place] = number

    def _is_open(self, number, place):
        """Whether who took a lock still has the file open: to close it unlocks it."""
        try:
            status = os.fstat(number)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == place[:2]


def play_windows(patch):
    """Put Windows in place of Linux where kinrank looks; its locks."""
    from kinrank import cache, io
    from kinrank.index import file as index_file
    from kinrank.index import write_lock
    from kinrank.runs import disk, journal
    from kinrank.serve import run

    windows = System("win32")
    locks = ByteLocks()
    for module in (cache, io, index_file, write_lock, disk, journal, run):
        patch.setattr(module, "sys", windows)
    patch.setattr(io, "msvcrt", locks, raising=False)
    patch.delattr(io, "fcntl")
    unlink = os.unlink
    replace = os.replace

    def careful_unlink(path, **options):
        refuse_if_used(path)
        unlink(path, **options)

    def careful_replace(source, target, **options):
        refuse_if_used(source)
        refuse_if_used(target)
        replace(source, target, **options)

    patch.setattr(os, "unlink", careful_unlink)
    patch.setattr(os, "remove", careful_unlink)
    patch.setattr(os, "replace", careful_replace)
    patch.setattr(shutil, "_use_fd_functions", False)
    return locks
