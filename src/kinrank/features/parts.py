"""Finished parts of an extraction on disk, and the file that is made of them.

A part is known by a key over all that its rows depend on: the network, the preprocessing, the
descriptor, and for each picture its name, size, time of change and box. So a run finds what an
earlier one finished, and never takes something for finished that would come out differently.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import KinrankError
from kinrank.features.worker import Rows
from kinrank.io import PathLike, npz_members, save_npz
from kinrank.reading import open_npz


@dataclass(frozen=True)
class Parts:
    """The folder of finished parts."""

    folder: Path

    def find(self, key: str) -> Rows | None:
        """The rows of a part; None if it is not there or not whole."""
        file = self._file(key)
        if not file.is_file():
            return None
        with suppress(KinrankError, OSError), open_npz(file, "a finished part") as arrays:
            failed, reasons = arrays["failed"].tolist(), arrays["reasons"].tolist()
            failures = dict(zip(failed, reasons, strict=True))
            return Rows(arrays["features"], arrays["owners"], failures)
        return None

    def save(self, key: str, rows: Rows) -> None:
        """Keep a part."""
        self.folder.mkdir(parents=True, exist_ok=True)
        save_npz(
            self._file(key),
            features=rows.features,
            owners=rows.owners,
            failed=np.array(list(rows.failures), np.int32),
            reasons=np.array(list(rows.failures.values()), np.str_),
        )

    def remove(self) -> None:
        """Delete the folder and what was kept in it, and nothing else."""
        if not self.folder.is_dir():
            return
        for file in (*self.folder.glob("*.part"), *self.folder.glob(".*.part.*.tmp")):
            file.unlink(missing_ok=True)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}.part"


@dataclass(frozen=True)
class RowBlocks:
    """An array that is never in memory as a whole: its shape, and its rows block by block."""

    shape: tuple[int, int]
    blocks: Iterator[npt.NDArray[np.float32]]


def write_npz(path: PathLike, arrays: dict[str, npt.NDArray[Any] | RowBlocks]) -> None:
    """As ``kinrank.io.save_npz``, with arrays that come in blocks of rows."""
    with npz_members(path) as member:
        for name, array in arrays.items():
            with member(name) as stream:
                if not isinstance(array, RowBlocks):
                    np.lib.format.write_array(stream, array, allow_pickle=False)
                    continue
                header = {"descr": "<f4", "fortran_order": False, "shape": array.shape}
                np.lib.format.write_array_header_1_0(stream, header)
                for block in array.blocks:
                    stream.write(np.ascontiguousarray(block, "<f4").data)
