"""How the maps of one picture become its row, or its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.features import pooling
from kinrank.projection.arrays import unit
from kinrank.projection.projection import Projection
from kinrank.validation import check_choice, check_float, check_int

POOLS = ("mac", "spoc", "gem", "rmac", "none")
MAX_SCALES = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class Descriptor:
    """The recipe from maps to unit rows.

    Parameters
    ----------
    pool : "mac", "spoc", "gem" or "rmac" for networks that end with a map, "none" for those that
        end with a vector; None takes gem or none, as the network asks for
    p : power of GeM
    levels : of the grid of R-MAC
    scales : sizes at which a picture is seen, relative to that of the preprocessing; their vectors
        are averaged, with ``scale_power`` as the power of the mean
    regional : one row for each region of R-MAC (and each scale) instead of one for each picture
    region_whitening : applied to each region of R-MAC
    whitening : applied to the finished row
    dims : what is kept of the whitening's dimensions

    Examples
    --------
    >>> import kinrank
    >>> kinrank.features.Descriptor(pool="rmac", levels=2).levels
    2
    """

    pool: Literal["mac", "spoc", "gem", "rmac", "none"] | None = None
    p: float = 3.0
    levels: int = 3
    scales: tuple[float, ...] = (1.0,)
    scale_power: float = 1.0
    regional: bool = False
    region_whitening: Projection | None = None
    whitening: Projection | None = None
    dims: int | None = None

    def __post_init__(self) -> None:
        if self.pool is not None:
            check_choice("pool", self.pool, POOLS)
        pooling.check_power("p", self.p, infinite=True)
        check_int("levels", self.levels, 1, pooling.MOST_LEVELS)
        pooling.check_power("scale_power", self.scale_power)
        object.__setattr__(self, "scales", tuple(self.scales))
        if not 1 <= len(self.scales) <= MAX_SCALES:
            raise InvalidInputError(
                f"`scales` must be 1 to {MAX_SCALES} numbers, got {len(self.scales)}."
            )
        for scale in self.scales:
            check_float("scales", scale, 0, 8, low_open=True)
        if self.pool != "rmac" and (self.regional or self.region_whitening is not None):
            what = "regional" if self.regional else "region_whitening"
            raise InvalidInputError(
                f"`{what}` works with pool='rmac' only, got pool={self.pool!r}."
            )
        if self.dims is not None and self.whitening is None:
            raise InvalidInputError("`dims` needs a whitening, and none is given.")

    def rows(self, outputs: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.float32]:
        """The rows of some pictures: (n, d), or (n, regions, d) if regional.

        outputs : for each scale what the network gave, (n, channels, height, width) or (n, d)
        """
        scales = [self._pooled(output) for output in outputs]
        if self.regional:
            rows = np.concatenate(scales, axis=1)
        elif len(scales) == 1:
            rows = unit(scales[0])
        else:
            rows = pooling.multiscale([unit(scale) for scale in scales], self.scale_power)
        if self.whitening is not None:
            rows = self.whitening.apply(rows, self.dims)
        return np.asarray(rows, np.float32)

    def _pooled(self, output: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if output.ndim not in (2, 4):
            raise InvalidInputError(
                "The layer must give (n, channels, height, width) or (n, d), "
                f"got {output.ndim} dimensions, shape {output.shape}."
            )
        name = self.pool or ("gem" if output.ndim == 4 else "none")
        if (name == "none") != (output.ndim == 2):
            fits = "'none' for a layer of vectors" if output.ndim == 2 else "a pooling for a map"
            raise InvalidInputError(f"`pool` must be {fits}, got {name!r}.")
        if name == "rmac":
            pool = pooling.regional if self.regional else pooling.rmac
            return pool(output, self.levels, whitening=self.region_whitening)
        if name == "gem":
            return pooling.gem(output, self.p)
        return output if name == "none" else getattr(pooling, name)(output)  # mac or spoc
