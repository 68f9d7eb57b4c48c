"""Pickle files of plain data, read without running anything.

A pickle is a small program that can call any function of any module. The reader here knows lists,
tuples, dicts, sets, numbers, text, bytes and numpy arrays and scalars of numbers or text. Every
name in the file is looked up in the table below and nowhere else, and what stands there is ours:
not even numpy's own functions are called with what the file says.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np

from kinrank.errors import FileFormatError
from kinrank.reading import check_pickle, reading

MAX_BYTES = 1 << 30
PLAIN_KINDS = "biufSU"


def load_plain_pickle(path: str | os.PathLike[str]) -> Any:
    """Read a pickle file of plain data; anything else is refused before it is run."""
    file = Path(path)
    size = file.stat().st_size
    if size > MAX_BYTES:
        raise FileFormatError(f"{file} must be at most {MAX_BYTES:,} bytes, got {size:,}.")
    with reading(file, "a pickle file"):
        stream = io.BytesIO(file.read_bytes())
        check_pickle(stream)
        try:
            return _finish(_PlainUnpickler(stream).load())
        except _RefusedError as error:
            raise FileFormatError(
                f"{file} must hold plain data (lists, dicts, numbers, text, arrays), got {error}. "
                "It was not run."
            ) from None


class _RefusedError(Exception):
    """The file asks for something that is not plain data."""


class _PlainUnpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO) -> None:
        # Files of Python 2 hold arrays as text; latin1 keeps their bytes.
        super().__init__(stream, encoding="latin1")

    def find_class(self, module: str, name: str) -> Any:
        maker = _MAKERS.get((module, name))
        if maker is None:
            raise _RefusedError(f"a call of {module}.{name}")
        return _Token(maker)

    def persistent_load(self, pid: Any) -> Any:
        raise _RefusedError(f"a reference to {pid!r} outside the file")


class _Token:
    """Stands for a name in the file: can be called, and cannot be changed by the file."""

    __slots__ = ("_maker",)

    def __init__(self, maker: Any) -> None:
        self._maker = maker

    def __call__(self, *arguments: Any) -> Any:
        return self._maker(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise _RefusedError("an attempt to change a function")


class _Dtype:
    """A dtype in the making: its code, and whether its bytes are the other way round."""

    __slots__ = ("code", "swapped")

    def __init__(self, code: Any) -> None:
        self.code = str(code)
        self.swapped = False

    def __setstate__(self, state: Any) -> None:
        self.swapped = state[1] == (">" if sys.byteorder == "little" else "<")
        if state[2] is not None or state[4] is not None:
            raise _RefusedError("an array with fields")

    def finish(self) -> np.dtype[Any]:
        dtype = np.dtype(self.code)
        if dtype.kind not in PLAIN_KINDS:
            raise _RefusedError(f"an array of dtype {dtype}")
        return dtype.newbyteorder() if self.swapped else dtype


class _Array:
    """An array in the making."""

    __slots__ = ("state",)

    def __setstate__(self, state: Any) -> None:
        self.state = tuple(state)

    def finish(self) -> Any:
        shape, dtype, by_columns, data = self.state[-4:]
        return _make_array(data, dtype, shape, "F" if by_columns else "C")


def _make_array(data: Any, dtype: Any, shape: Any, order: Any) -> Any:
    kind = dtype.finish()
    raw = data.encode("latin1") if isinstance(data, str) else bytes(data)
    shape = tuple(int(side) for side in shape)
    if min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize != len(raw):
        raise _RefusedError(f"an array of shape {shape} in {len(raw)} bytes")
    values = np.frombuffer(raw, kind).reshape(shape, order="F" if order == "F" else "C")
    return values.astype(kind.newbyteorder("="))


def _latin1(text: Any, encoding: Any) -> bytes:
    if encoding != "latin1" or not isinstance(text, str):
        raise _RefusedError(f"an encoding {encoding!r}")
    return text.encode("latin1")


def _scalar(dtype: Any, data: Any) -> Any:
    return _make_array(data, dtype, (), "C")[()]


def _bytes(*arguments: Any) -> bytes:
    """An empty one, in the older protocols."""
    if arguments:
        raise _RefusedError("a call of bytes")
    return b""


def _type(*_: Any) -> Any:
    raise _RefusedError("a call of numpy.ndarray")


_MAKERS: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _type,
    ("numpy", "dtype"): lambda code, *_: _Dtype(code),
    ("_codecs", "encode"): _latin1,
    ("builtins", "bytes"): _bytes,
    ("__builtin__", "bytes"): _bytes,
}
for _package in ("numpy.core", "numpy._core"):
    _MAKERS[f"{_package}.multiarray", "_reconstruct"] = lambda *_: _Array()
    _MAKERS[f"{_package}.multiarray", "scalar"] = _scalar
    _MAKERS[f"{_package}.numeric", "_frombuffer"] = _make_array


def _finish(value: Any, done: dict[int, Any] | None = None) -> Any:
    """Arrays in the making, wherever they are, become arrays.

    ``done`` keeps what is shared shared: a few hundred bytes can hold a list of lists of lists
    that would be endless if it were written out.
    """
    done = {} if done is None else done
    if id(value) in done:
        return done[id(value)]
    if isinstance(value, _Token):
        raise _RefusedError("a function")
    if isinstance(value, (_Array, _Dtype)):
        finished = value.finish()
    elif isinstance(value, dict):
        finished = done[id(value)] = {}
        finished.update((_finish(key, done), _finish(item, done)) for key, item in value.items())
    elif isinstance(value, list):
        finished = done[id(value)] = []
        finished.extend(_finish(item, done) for item in value)
    elif isinstance(value, (tuple, set, frozenset)):
        finished = type(value)(_finish(item, done) for item in value)
    else:
        return value
    done[id(value)] = finished
    return finished
