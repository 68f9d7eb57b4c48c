"""Which methods can answer a query that is not in their graph."""

from __future__ import annotations

from kinrank.errors import InvalidInputError
from kinrank.methods.cas import CAS

# What an index cannot do, and why.
_ONLY = {
    "geodesic": ((False,), "paths lead through all rows"),
    "symmetric": ((True,), "a query is tied into a symmetric graph"),
    "divergence": (("js", "jaccard", "cosine"), "distances must lie in [0, 1]"),
    "fusion": (("squared", "euclidean"), "a diffusion distance needs the whole graph"),
    "regularizer": (("identity", "graph"), "a matrix knows nothing of a new query"),
}


def check_online(method: CAS) -> None:
    """Refuse options that an index cannot honour."""
    for name, (allowed, reason) in _ONLY.items():
        value = getattr(method, name)
        if not any(isinstance(value, type(one)) and value == one for one in allowed):
            wanted = " or ".join(repr(one) for one in allowed)
            shown = repr(value) if isinstance(value, (str, bool)) else type(value).__name__
            raise InvalidInputError(
                f"`{name}` must be {wanted} for an index ({reason}), got {shown}; "
                "`rerank` takes it."
            )


def list_length(method: CAS, n: int) -> int:
    """How many neighbours of each row, the row itself counted, an index over n rows needs."""
    return method.resolved(n).list_length()


def needs_f(method: CAS) -> bool:
    """Whether rows of F before smoothing are asked for again."""
    return method.smoothing == "aqe" or (method.smoothing == "nss" and method.guide != "walk")
