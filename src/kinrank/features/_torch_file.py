"""Weights out of a file that torch saved before version 1.6, without torch and without running it.

The file is five pickles (a magic number, a version, facts about the machine, the dictionary of
tensors, the list of storages) and then the storages: a count and the numbers. A pickle is a small
program that can call anything; the reader here knows the handful of names that a dictionary of
tensors needs, and what stands for them is ours.
"""

from __future__ import annotations

import io
import math
import pickle
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.reading import check_pickle, reading

_MAGIC = 0x1950A86A20F9469CFC6C
_DTYPES = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "LongStorage": "<i8", "IntStorage": "<i4"}


def read_state(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a state dictionary, by name."""
    with reading(path, "a dictionary of tensors saved by torch"):
        stream = io.BytesIO(path.read_bytes())
        magic, _, _, tensors, order = (_load(stream) for _ in range(5))
        if magic != _MAGIC:
            raise ValueError("another beginning")
        kinds = {tensor.key: tensor.dtype for tensor in tensors.values()}
        storages = {key: _read_storage(stream, kinds[key]) for key in order}
        return {name: tensor.array(storages) for name, tensor in tensors.items()}


@dataclass
class _Tensor:
    """A view on a storage."""

    key: str
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def array(self, storages: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        storage = storages[self.key]
        if math.prod(self.shape) > len(storage):  # strides of 0 would repeat numbers
            raise ValueError("a tensor outside of its storage")
        steps = [stride * storage.itemsize for stride in self.strides]
        start = self.offset * storage.itemsize
        # numpy refuses what reaches outside of the buffer.
        return np.ndarray(self.shape, storage.dtype, storage, start, steps).copy()


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        raise pickle.UnpicklingError(f"a call of {module}.{name}, which was not run")

    def persistent_load(self, pid: Any) -> Any:
        kind, dtype, key, *_ = pid  # and the device, the count, and a view
        if kind != "storage" or dtype not in _DTYPES.values():
            raise pickle.UnpicklingError(f"a reference to {pid!r}")
        return str(key), str(dtype)


def _load(stream: io.BytesIO) -> Any:
    check_pickle(stream)
    return _Reader(stream).load()


def _rebuild(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> _Tensor:
    key, dtype = storage
    sizes, steps = (tuple(int(number) for number in numbers) for numbers in (shape, strides))
    return _Tensor(key, dtype, int(offset), sizes, steps)


def _read_storage(stream: io.BytesIO, dtype: str) -> npt.NDArray[Any]:
    count = int.from_bytes(stream.read(8), "little", signed=True)
    raw = stream.read(max(0, count) * np.dtype(dtype).itemsize)
    values = np.frombuffer(raw, dtype)
    if len(values) != count:
        raise ValueError(f"a storage of {len(values)} numbers instead of {count}")
    return values
