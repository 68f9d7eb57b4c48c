"""What every method is: a frozen set of parameters that turns vectors into a ranking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kinrank.types import Ranking


@dataclass(frozen=True, kw_only=True)
class Method:
    """Base of all methods. Fields are the parameters; ``__post_init__`` checks them."""

    def rerank(
        self,
        queries: Any,
        gallery: Any,
        k: int | None = None,
        *,
        threads: int | None = None,
        block_size: int | None = None,
    ) -> Ranking:
        """Rank the gallery for each query; see ``kinrank.rerank``."""
        raise NotImplementedError
