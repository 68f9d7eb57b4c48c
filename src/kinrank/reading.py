"""Files of users, read so that whatever is in them ends as arrays, words, or one clear error."""

from __future__ import annotations

import io
import json
import math
import os
import pickletools
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import FileFormatError, OptionalDependencyError
from kinrank.validation import check_path

MAX_RATIO = 100  # of the bytes of a compressed array over those in the file, ...
SMALL = 1 << 28  # ... unless it is small: equal labels shrink to almost nothing
_REASON = 300  # characters
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_ENTRY = b"PK\x01\x02"  # begins one in the table of contents
_MEMO = ("PUT", "BINPUT", "LONG_BINPUT")


@contextmanager
def reading(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Turn all that broken content raises into one error: ``path`` must be ``what``, got why.

    Broken bytes raise almost anything, so nothing is listed here. A file that is not there or may
    not be read stays an OSError: these know the name of the file.
    """
    try:
        with np.errstate(over="raise", invalid="raise"):  # sizes and numbers that fit no type
            yield
    except (FileFormatError, OptionalDependencyError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise FileFormatError(f"{os.fspath(path)} must be {what}, got: {_reason(error)}") from error


def read_json(path: str | os.PathLike[str], what: str) -> Any:
    """The value in a JSON file."""
    check_path("path", path)
    with reading(path, what):
        return json.loads(read_text(path, what))


def read_text(path: str | os.PathLike[str], what: str = "text in UTF-8") -> str:
    """The text of a file."""
    check_path("path", path)
    with reading(path, what):
        return Path(path).read_text(encoding="utf-8")


class Npz:
    """The arrays of an npz file, each as large as the file says and no larger."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._archive = zipfile.ZipFile(stream)
        self._size = os.fstat(stream.fileno()).st_size
        self.names = [name.removesuffix(".npy") for name in self._archive.namelist()]
        if len(set(self.names)) != len(self.names):
            raise ValueError("an array that is there twice")
        # A wrong length makes the entries behind it part of a remark, and they would be missing.
        if any(_ENTRY in entry.extra + entry.comment for entry in self._archive.infolist()):
            raise ValueError("a table of contents with a wrong length")

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        entry = self._archive.getinfo(f"{name}.npy")
        self._check(name, entry)
        # Opened again: to go back in the stream would switch its check sum off.
        with self._archive.open(entry) as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)

    def _check(self, name: str, entry: zipfile.ZipInfo) -> None:
        size = entry.file_size
        packed = min(entry.compress_size, self._size)
        if size > max(SMALL, MAX_RATIO * packed):
            raise ValueError(
                f"`{name}`, whose {packed:,} bytes inflate to {size:,}, more than {MAX_RATIO} "
                "times as many: save it uncompressed"
            )
        with self._archive.open(entry) as stream:
            shape, _, dtype = read_npy_header(stream)
            # What is not read would not be in the check sum, and memory is asked for at once.
            if not dtype.hasobject and stream.tell() + math.prod(shape) * dtype.itemsize != size:
                raise ValueError(f"`{name}` of shape {shape} in {size:,} bytes")


def read_npy_header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether by columns, and dtype of the npy file that ``stream`` is at the start of."""
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"an array in version {version} of the npy format")
    shape, by_columns, dtype = _HEADERS[version](stream)
    # numpy takes True for 1 here, and refuses it where it makes an array of that shape.
    if not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"an array of the shape {shape}")
    return shape, by_columns, dtype


@contextmanager
def open_npz(path: str | os.PathLike[str], what: str) -> Iterator[Npz]:
    """An npz file; what is raised while it is open counts as its content."""
    check_path("path", path)
    with reading(path, what), Path(path).open("rb") as stream:
        yield Npz(stream)


def check_pickle(stream: io.BytesIO) -> None:
    """Raise unless the next pickle is whole, and small when it is read.

    One instruction could ask for a table of 2^32 places.
    """
    begin = stream.tell()
    size = len(stream.getbuffer())
    for instruction, argument, _ in pickletools.genops(stream):
        if instruction.name in _MEMO and int(argument or 0) > size:
            raise ValueError(f"place {argument} in a pickle of {size:,} bytes")
    stream.seek(begin)


def _reason(error: Exception) -> str:
    reason = " ".join(str(error).split()) or type(error).__name__
    # numpy has several sentences for a file with pickled objects, and one advises to trust it.
    if any(word in reason for word in ("allow_pickle", "pickled (object)", "Python objects")):
        return "pickled Python objects, which could run code when read"
    if isinstance(error, KeyError):
        return f"no {reason}"
    return reason if len(reason) <= _REASON else f"{reason[:_REASON]}..."
