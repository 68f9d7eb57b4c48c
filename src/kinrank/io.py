"""Files: arrays in, arrays and pages out. What is written appears whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import secrets
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank import _safetensors
from kinrank.columns import holds_vectors, matrix_of, null_count, only_column, words_or_numbers
from kinrank.errors import FileFormatError, InvalidInputError, UnknownNameError, UnwritableError
from kinrank.optional import require
from kinrank.reading import open_npz, reading
from kinrank.validation import check_path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

PathLike: TypeAlias = str | os.PathLike[str]
Member: TypeAlias = Callable[[str], IO[bytes]]  # opens a part of an npz file by its name

READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)  # how a system refuses to write

_TOKEN = 4  # random bytes in the names of temporary files
_PARQUET = b"PAR1"
_NPY = b"\x93NUMPY"
_NPZ = (b"PK\x03\x04", b"PK\x05\x06")  # the second begins an archive without files
_PLAIN = "a whole file of plain arrays"
_LOCKED_BYTE = 2**31 - 2  # the last that every version of Windows' library can lock


@contextmanager
def writing(path: PathLike) -> Iterator[None]:
    """Turn the system's refusal to write ``path`` into an error that says what to do."""
    try:
        yield
    except UnwritableError:
        raise
    except OSError as error:
        if error.errno not in READ_ONLY:
            raise
        cure = "Choose a folder that can be written to."
        if sys.platform == "win32":
            cure += " A file that is open elsewhere cannot be replaced: close it there."
        raise UnwritableError(
            f"{os.fspath(path)} cannot be written ({error.strerror}). {cure}", error
        ) from error


def make_folder(folder: PathLike) -> None:
    """Make a folder and those above it, where they are not there yet."""
    check_path("folder", folder)
    with writing(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)


def temporary_folder() -> str:
    """Where temporary files go."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError as error:
        raise UnwritableError(
            "No folder for temporary files can be written to. Set TMPDIR to one that can.", error
        ) from error


@contextmanager
def replacing(path: PathLike) -> Iterator[IO[bytes]]:
    """A file beside ``path`` that takes its place when the block ends without an exception."""
    target = Path(check_path("path", path)).resolve()  # a link stays a link
    if target.exists() and not target.is_file():
        # A pipe or /dev/null is written to: to put a file in its place would destroy it.
        with writing(target):
            file = target.open("wb")
        with file:
            yield file
        return
    if not target.parent.exists():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder", str(target.parent))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(_TOKEN)}.tmp")
    with writing(target):
        # "x" gives the rights that the user's umask asks for, which tempfile's files lack.
        file = temporary.open("xb")
    try:
        with in_use(file):
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            with writing(target):
                temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def take_lock(file: IO[bytes]) -> None:
    """Lock a file for this opening of it; raises OSError if another one has it locked."""
    if sys.platform == "win32":
        with _at_locked_byte(file):
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def wait_for_lock(file: IO[bytes], seconds: float) -> None:
    """Lock a file as ``take_lock`` does, waiting for another to unlock it, for so long at most."""
    end = time.monotonic() + seconds
    while True:
        try:
            take_lock(file)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


def release_lock(file: IO[bytes]) -> None:
    """Unlock a file that ``take_lock`` locked, for copies of the process that have it open too."""
    with suppress(OSError):
        if sys.platform == "win32":
            with _at_locked_byte(file):
                msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_UN)


@contextmanager
def _at_locked_byte(file: IO[bytes]) -> Iterator[None]:
    """Windows locks bytes, from where a file stands; the one that all lock is behind every end.

    Nobody can read a locked byte there, so it must not be one of the content.
    """
    place = file.tell()
    file.seek(_LOCKED_BYTE)
    try:
        yield
    finally:
        file.seek(place)


@contextmanager
def in_use(file: IO[bytes]) -> Iterator[None]:
    """Keep a file locked to the end of the block, also when it is closed before."""
    if sys.platform == "win32":  # where a file that is open cannot be removed anyhow
        yield
        return
    with suppress(OSError):  # a file system without locks
        take_lock(file)
    second = os.dup(file.fileno())
    try:
        yield
    finally:
        os.close(second)


def remove_leftovers(path: PathLike) -> None:
    """Remove what writers of ``path`` that were killed left beside it; who still writes is spared.

    To be called by who may write ``path``.
    """
    target = Path(path).resolve()
    leftover = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{{2 * _TOKEN}}}\.tmp")
    for place in target.parent.iterdir():
        if not leftover.fullmatch(place.name):
            continue
        if sys.platform == "win32":  # where a file that is open cannot be removed
            with suppress(OSError):
                place.unlink(missing_ok=True)
            continue
        with suppress(OSError), place.open("rb") as file:
            take_lock(file)
            place.unlink(missing_ok=True)


def save_npz(path: PathLike, /, **arrays: npt.ArrayLike) -> None:
    """Write named arrays to an npz file, whole or not at all.

    The file gets exactly the name given: ``save_npz("a")`` writes ``a``, not ``a.npz``, so that
    what was saved under a path is found under it. The same arrays give the same bytes.

    Parameters
    ----------
    path : the file; one that exists is replaced at the end, in one step
    **arrays : arrays of numbers, text or booleans; no Python objects
    """
    checked = {name: np.asanyarray(values) for name, values in arrays.items()}
    for name, array in checked.items():
        if array.dtype.hasobject:
            raise InvalidInputError(f"`{name}` must hold no Python objects, got {array.dtype}.")
    with npz_members(path) as member:
        write_members(member, checked)


def save_npy(path: PathLike, array: npt.NDArray[Any]) -> None:
    """Write one array to an npy file of exactly this name, whole or not at all."""
    with replacing(path) as file:
        np.lib.format.write_array(file, array, allow_pickle=False)


@contextmanager
def npz_members(path: PathLike) -> Iterator[Member]:
    """A function that opens the arrays of an npz file to write them, one after another."""
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        # ZipInfo has a fixed date, where a plain name would take the clock's.
        yield lambda name: archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True)


def write_members(member: Member, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Whole arrays into an npz file."""
    for name, array in arrays.items():
        with member(name) as stream:
            np.lib.format.write_array(stream, array, allow_pickle=False)


def save_safetensors(
    path: PathLike, arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str]
) -> None:
    """Write named arrays and words about them to a safetensors file, whole or not at all."""
    with replacing(path) as file:
        _safetensors.write(file, arrays, metadata)


def load_safetensors(path: PathLike) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
    """All arrays of a safetensors file, in memory, and what it says about itself."""
    file = Path(check_path("path", path))
    entries, metadata, begin = _safetensors.read_header(file)
    if not isinstance(metadata, dict):
        raise FileFormatError(f"{file} must have a JSON object as its metadata, got {metadata!r}.")
    arrays = {
        name: np.array(_safetensors.read_entry(file, name, entry, begin))
        for name, entry in entries.items()
    }
    return arrays, {str(name): str(text) for name, text in metadata.items()}


def write_text_atomic(path: PathLike, text: str) -> None:
    """Write ``text`` (UTF-8), whole or not at all."""
    with replacing(path) as file:
        file.write(text.encode())


def load_array(path: PathLike, key: str | None = None) -> npt.NDArray[Any]:
    """Read one array from an npy, npz, safetensors or parquet file; nothing in it is executed.

    Parameters
    ----------
    path : the file; ``"file.npz:name"`` means the array ``name`` in it, and
        ``"file.parquet:name"`` a column (extra ``tables``)
    key : the same name, apart; needed only where a file holds several arrays

    Returns
    -------
    array
        Read-only and mapped from disk for npy and safetensors, so a file larger than memory can
        be opened; a copy in memory for npz and parquet.
    """
    file, name = split_name(path)
    if key is not None and name is not None:
        raise InvalidInputError(f"`key` must not be given beside {os.fspath(path)}, got {key!r}.")
    key = name if key is None else key
    with file.open("rb") as stream:
        head = stream.read(9)
    if head.startswith(_NPY):
        if key is not None:
            raise InvalidInputError(
                f"`key` must be None for {file}, which is one array, got {key!r}."
            )
        with reading(file, _PLAIN):
            array: npt.NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
        return array
    if head.startswith(_NPZ):
        with open_npz(file, _PLAIN) as archive:
            names = archive.names
        chosen = _pick(file, names, key)
        with open_npz(file, _PLAIN) as archive:
            return archive[chosen]
    if file.suffix == ".safetensors" or head[8:] == b"{":
        entries, _, begin = _safetensors.read_header(file)
        chosen = _pick(file, list(entries), key)
        return _safetensors.read_entry(file, chosen, entries[chosen], begin)
    if head.startswith(_PARQUET):
        return _read_column(file, key)
    got = "an empty file" if not head else f"one that begins with {head!r}"
    raise FileFormatError(f"{file} must be an npy, npz, safetensors or parquet file, got {got}.")


def is_npz(path: PathLike) -> bool:
    """Whether a file is an npz file, by its name or by how it begins."""
    with Path(path).open("rb") as stream:
        return Path(path).suffix == ".npz" or stream.read(4) in _NPZ


def is_parquet(path: PathLike) -> bool:
    """Whether a file is a table of parquet."""
    with Path(path).open("rb") as stream:
        return stream.read(len(_PARQUET)) == _PARQUET


def read_parquet(file: Path, columns: list[str] | None = None) -> Any:
    """A parquet file as a table of Arrow (extra ``tables``); columns : None is all of them."""
    parquet = require("pyarrow.parquet", extra="tables", purpose="A parquet file")
    with reading(file, "a whole parquet file"), parquet.ParquetFile(file) as opened:
        return opened.read(columns)


def parquet_names(file: Path) -> list[str]:
    """The names of the columns of a parquet file."""
    return list(_parquet_schema(file).names)


def _parquet_schema(file: Path) -> Any:
    parquet = require("pyarrow.parquet", extra="tables", purpose="A parquet file")
    with reading(file, "a whole parquet file"):
        return parquet.read_schema(file)


def _read_column(file: Path, key: str | None) -> npt.NDArray[Any]:
    """One column of a parquet file: vectors as a matrix, others as they are."""
    schema = _parquet_schema(file)
    if key is None:
        listed = [name for name in schema.names if holds_vectors(schema.field(name))]
        if not listed:
            raise InvalidInputError(
                f"{file} must have a column of vectors (lists of numbers), got the columns "
                f"{', '.join(schema.names) or 'none'}."
            )
        key = str(only_column(file.name, listed))
    if key not in schema.names:
        raise UnknownNameError(f"column of {file}", key, schema.names)
    column = read_parquet(file, [key])[key]
    if holds_vectors(column):
        return matrix_of(f"{file.name}:{key}", column)
    nulls = null_count(column)
    values = None if nulls else words_or_numbers(column)
    if values is None:
        got = f"{nulls} nulls" if nulls else column.type
        raise InvalidInputError(
            f"The column {key!r} of {file} must have text or a number in every row, got {got}."
        )
    return values


def split_name(path: PathLike) -> tuple[Path, str | None]:
    """``"file.npz:name"`` as its file and name; a file that is really called so goes first."""
    whole = check_path("path", path)
    front, _, name = whole.rpartition(":")
    if front and name and not Path(whole).exists() and Path(front).exists():
        return Path(front), name
    return Path(whole), None


def _pick(file: Path, names: list[str], key: str | None) -> str:
    """The name of the array to read."""
    if key is not None:
        if key not in names:
            raise UnknownNameError(f"name in {file}", key, names)
        return key
    if len(names) != 1:
        if not names:
            raise InvalidInputError(f"{file} holds no array.")
        raise InvalidInputError(
            f"{file} holds {len(names)} arrays ({', '.join(names)}): say which, as in "
            f"{file}:{names[0]}."
        )
    return names[0]
