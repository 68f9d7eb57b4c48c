"""Parameters that were chosen for the rows of an index, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, get_type_hints

UNSURE = "unsure"
GROWN = 2  # times the rows from which on parameters should be chosen again


@dataclass(frozen=True, kw_only=True)
class AutoParameters:
    """What ``fit(gallery, params="auto")`` chose.

    Attributes
    ----------
    rows : how many the gallery had then
    verdict, because : "will help", "will not help" or "unsure", and why
    gain : of mean average precision that was expected, from 0 to 1
    reasons : why, for each parameter that was chosen
    """

    rows: int
    verdict: str
    because: str
    gain: float
    reasons: dict[str, str]

    @classmethod
    def read(cls, words: Any) -> AutoParameters | None:
        """What a file says; None if it says nothing, or something else."""
        types = get_type_hints(cls) | {"reasons": dict}
        if not isinstance(words, dict) or set(words) != {item.name for item in fields(cls)}:
            return None
        right = all(isinstance(words[name], types[name]) for name in words)
        texts = right and all(isinstance(text, str) for text in words["reasons"].values())
        return cls(**words) if texts and words["rows"] > 0 else None

    def sentences(self) -> dict[str, str]:
        """The verdict and why each parameter was chosen, name by name, wherever it is told."""
        return {"verdict": f"{expectation(self.verdict)}. {self.because}", **self.reasons}

    def as_dict(self, rows: int) -> dict[str, Any]:
        """Plain words and numbers; rows : that the gallery has now."""
        return {**asdict(self), "outgrown": self.outgrown(rows)}

    def outgrown(self, rows: int) -> bool:
        """Whether ``rows`` are so many that it is time to choose again."""
        return rows >= GROWN * self.rows

    def advice(self, rows: int) -> str:
        """What to say of an index that has outgrown its parameters."""
        return (
            f"The gallery has grown from {self.rows:,} to {rows:,} rows since its parameters were "
            'chosen: choose again, with CAS().fit(gallery, params="auto").'
        )


def expectation(verdict: str) -> str:
    """A verdict as part of a sentence."""
    if verdict == UNSURE:
        return "whether re-ranking helps is unsure"
    return f"re-ranking {verdict}"
