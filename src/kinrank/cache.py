"""Where kinrank keeps what it can make again: compiled kernels and converted networks.

Compiled kernels are code that will be run. Each is a file of its own, which begins with a checksum
of its name and of the rest. Who could have written it is asked before it is read: another user's
code is not run.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import sys
from pathlib import Path

_CHECKSUM = 32  # bytes of it
_NOT_OTHERS = 0o755  # rights of a folder: others may read


class UntrustedError(OSError):
    """Somebody else can write where code is kept."""


def cache_folder() -> Path:
    """``KINRANK_CACHE``, or a folder of kinrank in the user's cache."""
    chosen = os.environ.get("KINRANK_CACHE")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or _home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = _home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache")
    return base / "kinrank"


def _home() -> Path:
    """The user's folder; in a container a user may have none, and then nothing can be kept."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)


def read_entry(folder: Path, name: str, beside: Path | None = None) -> bytes | None:
    """What was written under a name; None if it is not there, or not what was written.

    beside : a file that came with the folder and is trusted already, such as a source of the same
        installation: its owner may have written the folder too
    """
    _check_trust(str(folder), folder.stat(), beside)
    with (folder / name).open("rb") as file:
        _check_trust(f"A file in {folder}", os.fstat(file.fileno()), beside)
        whole = file.read()
    content = whole[_CHECKSUM:]
    return content if whole[:_CHECKSUM] == _checksum(name, content) else None


def write_entry(folder: Path, name: str, content: bytes, beside: Path | None = None) -> None:
    """Keep bytes under a name, whole or not at all; the last of several writers prevails."""
    make_entry_folder(folder, beside)
    temporary = folder / f".{name}.{secrets.token_hex(4)}.tmp"
    try:
        with open(temporary, "xb", opener=_open_for_owner) as file:
            file.write(_checksum(name, content))
            file.write(content)
        try:
            temporary.replace(folder / name)
        except PermissionError:
            # Windows does not replace a file that somebody reads: it is there, and the same.
            if sys.platform != "win32" or not (folder / name).exists():
                raise
            temporary.unlink()
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def make_entry_folder(folder: Path, beside: Path | None = None) -> None:
    """Make a folder for entries, which others cannot write to; one that is there must be such."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=_NOT_OTHERS, exist_ok=True)
    _check_trust(str(folder), folder.stat(), beside)


def _open_for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, _NOT_OTHERS & 0o666)


def _checksum(name: str, content: bytes) -> bytes:
    digest = hashlib.blake2b(name.encode(), digest_size=_CHECKSUM)
    digest.update(content)
    return digest.digest()


def _check_trust(what: str, found: os.stat_result, beside: Path | None) -> None:
    """Raise unless a file or folder can be written by this user and by root alone.

    Who can write the file ``beside`` it could run code here anyhow, and may write to it too.
    """
    if sys.platform == "win32":  # the user's folders are closed to others there
        return
    owners = {os.geteuid(), 0}
    others = stat.S_IWGRP | stat.S_IWOTH
    if beside is not None:
        known = beside.stat()
        owners.add(known.st_uid)
        others &= ~known.st_mode
    if found.st_uid not in owners:
        raise UntrustedError(f"{what} belongs to another user (uid {found.st_uid}).")
    if found.st_mode & others:
        raise UntrustedError(f"{what} can be written to by other users.")
