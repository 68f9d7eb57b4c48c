"""What every method is: a frozen set of parameters that turns vectors into a ranking."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from kinrank.conditions import Conditions
from kinrank.errors import UnsupportedError
from kinrank.filters import Filter, empty_ranking
from kinrank.options import Checked, option
from kinrank.projection.kinds import Whiten, check_whiten
from kinrank.projection.projection import Projection
from kinrank.registry import method_class, methods
from kinrank.runs.execution import Execution, RankingInputs
from kinrank.runs.run import Run, as_run
from kinrank.types import Ranking
from kinrank.validation import as_matrix, check_int, reduce_k

_RESULT = 8  # bytes of a number and a distance


@dataclass(frozen=True, kw_only=True)
class Method(Checked):
    """Base of all methods. Fields are the parameters, which ``check_options`` checks.

    Parameters
    ----------
    whiten : None, "pairs", "views", a power between 0 and 0.5 (0.25 is half-whitening), or a fitted
        ``kinrank.Projection``
        Rows are divided by their norms and projected, then the method ranks them. "pairs" learns
        from what belongs together in the gallery, without labels; "views" joins that and
        half-whitening; a power scales the principal directions of the gallery by their variances.
        See ``Projection.fit``.

    Examples
    --------
    >>> import kinrank
    >>> isinstance(kinrank.CAS(), kinrank.Method)
    True
    >>> kinrank.CAS(k1=30).parameters()["k1"]
    30
    """

    # Bytes per gallery row that a thread needs while it ranks; above 0, every row is looked at for
    # every query.
    ranking_bytes: ClassVar[int] = 0
    # Whether it reads the gallery a block at a time, in memory and exactly: no ``where`` is taken.
    reads_in_blocks: ClassVar[bool] = False

    whiten: Whiten = option(
        None,
        "pairs, views, power of a whitening (0 to 0.5, 0.25 is half) or file of a projection",
        cli=str,
        check=check_whiten,
    )

    def parameters(self) -> dict[str, Any]:
        """All parameters by name; a fitted projection as text."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: str(v) if isinstance(v, Projection) else v for name, v in values.items()}

    def resolved(self, n: int, what: str = "rows") -> Self:
        """The same method with sizes that fit ``n`` rows; a warning for each that does not."""
        sizes = {
            name: reduce_k(name, getattr(self, name), max(limit, 1), what)
            for name, limit in self._limits(n).items()
            if getattr(self, name) is not None
        }
        return replace(self, **sizes)

    def _limits(self, n: int) -> dict[str, int]:
        """The largest value that each size can take with ``n`` rows."""
        spares = {item.name: item.metadata.get("spare") for item in fields(self)}
        return {name: n - spare for name, spare in spares.items() if spare is not None}

    def rerank(
        self,
        queries: Any,
        gallery: Any = None,
        k: int | None = None,
        *,
        allowed: Any = None,
        exclude: Any = None,
        threads: int | None = None,
        run: Run | None = None,
    ) -> Ranking:
        """Rank the gallery for each query.

        Parameters
        ----------
        queries : (n_queries, d) array of any real dtype, or a torch tensor
        gallery : (n_gallery, d) likewise; None ranks the queries among themselves, each without
            itself
        k : how many results per query; None ranks the whole gallery
        allowed, exclude : gallery rows that may be answers, that may not; see ``kinrank.rerank``
        threads : how many threads to use; never changes the result
        run : where the work is done, see ``kinrank.Run``

        Returns
        -------
        Ranking
        """
        conditions = Conditions(allowed=allowed, exclude=exclude)
        row_filter = conditions.filter_of_arrays(queries, gallery)
        return self.rerank_filtered(queries, gallery, k, row_filter, threads, as_run(run))

    def rerank_filtered(
        self,
        queries: Any,
        gallery: Any,
        k: int | None,
        row_filter: Filter | None,
        threads: int | None,
        run: Run,
    ) -> Ranking:
        """As ``rerank``, with conditions that were checked before."""
        self.check_run(run)
        row_bytes = 0
        if gallery is None:
            row_bytes = ranking_bytes(k, len(as_matrix("vectors", queries)))
        inputs = RankingInputs(self, queries, gallery, k, row_filter, row_bytes)
        with run.execution("rerank", inputs, threads) as execution:
            ranking = self.rank_if_any(queries, gallery, k, execution, row_filter)
            return execution.outlasting(ranking)

    def check_run(self, run: Run) -> None:
        """Refuse where this method cannot work."""
        if self.reads_in_blocks:
            run.refuse_others(f"with {type(self).__name__}", ("block_size",))

    def rank_if_any(
        self,
        queries: Any,
        gallery: Any,
        k: int | None,
        execution: Execution,
        row_filter: Filter | None,
    ) -> Ranking:
        """As ``ranked``; empty where a row has no other to rank."""
        if row_filter is not None and row_filter.among_themselves and row_filter.n_gallery == 1:
            return empty_ranking(1, 0)
        return self.ranked(queries, gallery, k, execution, row_filter)

    if not TYPE_CHECKING:  # or every name would be an attribute

        def __getattr__(self, name: str) -> Any:
            if name == "fit":
                raise UnsupportedError(
                    f"{type(self).__name__} ranks queries and gallery together and cannot be "
                    f"fitted to a gallery alone: use `rerank`. `fit` is for {_with_fit()}."
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def ranked(
        self,
        queries: Any,
        gallery: Any,
        k: int | None,
        execution: Execution,
        row_filter: Filter | None = None,
    ) -> Ranking:
        """As ``rerank``, of a call whose execution has begun."""
        raise NotImplementedError


def ranking_bytes(k: int | None, n: int) -> int:
    """What the results of a row take where ``n`` rows are ranked among themselves."""
    return _RESULT * (n - 1 if k is None else min(check_int("k", k, 1), n - 1))


def _with_fit() -> str:
    """The names of the methods that can be fitted."""
    return ", ".join(name for name in methods() if hasattr(method_class(name), "fit"))
