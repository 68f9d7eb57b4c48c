"""How vectors are brought into the form that is searched: the same for rows and for queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kinrank.errors import InvalidInputError
from kinrank.types import Floats
from kinrank.validation import (
    common_exponent,
    origin_shift,
    refuse_too_large,
    same_width,
    stack_rows,
)


@dataclass(frozen=True, eq=False)
class Frame:
    """Rows over their norm, or all over a power of two and moved; see ``as_vectors``.

    width : the number of columns
    """

    width: int
    cosine: bool
    exponent: int = 0
    shift: Floats | None = None

    @classmethod
    def of(cls, *named: tuple[str, Any], cosine: bool) -> tuple[Floats, Frame]:
        """Named row sets as one float32 array, and the frame that they were brought into."""
        matrices = same_width(*named)
        exponent = 0 if cosine else common_exponent(matrices)
        rows = stack_rows(matrices, cosine, exponent)
        shift = None if cosine else origin_shift(rows)
        if shift is not None:
            rows -= shift
        return rows, cls(rows.shape[1], cosine, exponent, shift)

    def place(self, name: str, values: Any) -> Floats:
        """Further rows in the same frame, (n, width) float32, a copy."""
        matrices = same_width((name, values))
        if matrices[0][1].shape[1] != self.width:
            raise InvalidInputError(
                f"`{name}` must have as many columns as the index ({self.width}), "
                f"got {matrices[0][1].shape[1]}."
            )
        if not self.cosine:
            refuse_too_large(matrices, self.exponent)
        rows = stack_rows(matrices, self.cosine, self.exponent)
        if self.shift is not None:
            rows -= self.shift
        return rows
