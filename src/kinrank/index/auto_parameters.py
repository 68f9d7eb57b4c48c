"""What ``fit(gallery, params="auto")`` chose for an index, and why; the index keeps it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, get_type_hints

UNSURE = "unsure"
GROWTH = 2  # a gallery of so many times the rows needs other parameters


@dataclass(frozen=True, kw_only=True)
class AutoParameters:
    """What ``fit(gallery, params="auto")`` chose.

    Attributes
    ----------
    rows : how many rows the gallery had then
    verdict : whether re-ranking helps: "will help", "will not help" or "unsure"
    because : why, as a sentence
    gain : the mean average precision that is expected from re-ranking, from 0 to 1
    reasons : by the name of each parameter that was chosen, why, as a sentence
    """

    rows: int
    verdict: str
    because: str
    gain: float
    reasons: dict[str, str]

    @classmethod
    def read(cls, description: Any) -> AutoParameters | None:
        """From what a file has in JSON; None if that is nothing, or something else."""
        types = get_type_hints(cls) | {"reasons": dict}
        names = {item.name for item in fields(cls)}
        if not isinstance(description, dict) or set(description) != names:
            return None
        if not all(isinstance(description[name], types[name]) for name in names):
            return None
        if not all(isinstance(text, str) for text in description["reasons"].values()):
            return None
        return cls(**description) if description["rows"] > 0 else None

    def sentences(self) -> dict[str, str]:
        """What users are told: the "verdict", and by its name the reason of each parameter."""
        return {"verdict": f"{expectation(self.verdict)}. {self.because}", **self.reasons}

    def as_dict(self, rows: int) -> dict[str, Any]:
        """All of it as plain text and numbers; rows : how many the gallery has now."""
        return {**asdict(self), "outgrown": self.outgrown(rows)}

    def outgrown(self, rows: int) -> bool:
        """Whether a gallery of ``rows`` is so much larger that it is time to choose again."""
        return rows >= GROWTH * self.rows

    def advice(self, rows: int) -> str:
        """The warning for an index whose gallery has grown to ``rows``."""
        return (
            f"The gallery has grown from {self.rows:,} to {rows:,} rows since its parameters were "
            'chosen: choose again, with CAS().fit(gallery, params="auto").'
        )


def expectation(verdict: str) -> str:
    """A verdict as part of a sentence."""
    if verdict == UNSURE:
        return "whether re-ranking helps is unsure"
    return f"re-ranking {verdict}"
