"""One call while it is computed: what a ``Run`` becomes when its rows are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

from kinrank.arrays import IN_MEMORY, Arrays
from kinrank.filters import Filter
from kinrank.parallel import Runner
from kinrank.types import Ranking

if TYPE_CHECKING:  # they bring numba, which `import kinrank` leaves out
    from kinrank.search.searcher import RowSearcher, Search
    from kinrank.search.stored import Stored

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Execution:
    """Where and how the stages of a call are computed. Only search and vectors change a result.

    runner : runs the rows of a stage
    search : who finds neighbours
    vectors : in which type they are kept
    arrays : where long arrays lie that no stage fills
    search_block : how many rows at most an exact search takes together; None is what is quickest
    """

    runner: Runner
    search: Search = "exact"
    vectors: Literal["float32", "float16"] = "float32"
    arrays: Arrays = IN_MEMORY
    search_block: int | None = None

    def searcher(
        self, vectors: Stored, as_given: Stored | None = None, n_queries: int = 0
    ) -> RowSearcher:
        """The search over rows of a call.

        as_given : the same rows as users gave them, if they were moved or scaled
        n_queries : how many of them, the first, are queries: a searcher that users bring knows the
            others alone
        """
        if isinstance(self.search, str):
            return self.own_searcher(vectors)
        from kinrank.search.find import GivenSearch

        if as_given is None:
            as_given = vectors
        return GivenSearch(self.search, vectors, as_given, n_queries, self.runner)

    def outlasting(self, value: T) -> T:
        """What the call hands on when it has ended, without files that go with it."""
        if self.arrays is IN_MEMORY:
            return value
        from kinrank.runs.records import in_memory

        lasting: T = in_memory(value)
        return lasting

    def own_searcher(self, vectors: Stored) -> RowSearcher:
        """The search over rows that were computed: nobody else's searcher knows them."""
        from kinrank.search.exact import ExactSearch
        from kinrank.search.find import ApproximateSearch

        if self.search == "approximate":
            return ApproximateSearch(vectors, self.runner, self.search_block, self.arrays)
        return ExactSearch(vectors, self.runner, self.search_block)


@dataclass(frozen=True, eq=False)
class RankingInputs:
    """What a ranking follows from, beside where it is computed.

    queries, gallery : matrices, as users gave them; gallery : None where the queries are it
    row_bytes : memory that each row takes beside what stages keep in files
    """

    method: RankingMethod
    queries: Any
    gallery: Any
    k: int | None
    row_filter: Filter | None = None
    row_bytes: int = 0


class RankingMethod(Protocol):
    """What a run knows of a method."""

    ranking_bytes: ClassVar[int]
    reads_in_blocks: ClassVar[bool]

    @property
    def whiten(self) -> Any:
        """See ``Method``."""

    def ranked(
        self,
        queries: Any,
        gallery: Any,
        k: int | None,
        execution: Execution,
        row_filter: Filter | None = None,
    ) -> Ranking:
        """The ranking of one call."""
