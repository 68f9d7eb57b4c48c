"""What every method is: a frozen set of parameters that turns vectors into a ranking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

from kinrank.parallel import Runner
from kinrank.types import Ranking
from kinrank.where import Where, runner_for


@dataclass(frozen=True, kw_only=True)
class Method:
    """Base of all methods. Fields are the parameters; ``__post_init__`` checks them."""

    # Bytes per gallery row that a thread needs while it ranks; above 0, every row is looked at for
    # every query.
    ranking_bytes: ClassVar[int] = 0

    def rerank(
        self,
        queries: Any,
        gallery: Any,
        k: int | None = None,
        *,
        threads: int | None = None,
        block_size: int | None = None,
        **where: Unpack[Where],
    ) -> Ranking:
        """Rank the gallery for each query.

        Parameters
        ----------
        queries : (n_queries, d) array of any real dtype, or a torch tensor
        gallery : (n_gallery, d) likewise
        k : how many results per query; None ranks the whole gallery
        threads, block_size : how the work is divided; never changes the result
        **where : ``search``, ``memory_budget``, ``work`` and ``vectors``, see ``kinrank.rerank``

        Returns
        -------
        Ranking
        """
        with runner_for(self, queries, gallery, k, threads, block_size, where) as run:
            return self.ranked(queries, gallery, k, run)

    def ranked(self, queries: Any, gallery: Any, k: int | None, run: Runner) -> Ranking:
        """As ``rerank``, with a given runner."""
        raise NotImplementedError
