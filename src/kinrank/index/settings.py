"""Which methods can answer a query that is not in their graph, and their options as numbers."""

from __future__ import annotations

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.kernels.online import EXPANDED, NEAREST, RECIPROCAL
from kinrank.kernels.online_diffuse import Walk
from kinrank.kernels.online_encode import AVERAGE, BY_SIMILARITY, BY_WALK, NONE, Options
from kinrank.methods.cas import CAS
from kinrank.stages.diffuse import Polynomial, converged, iterated, tensor_product

# What an index cannot do, and why.
_ONLY = {
    "geodesic": ((False,), "paths lead through all rows"),
    "symmetric": ((True,), "a query is tied into a symmetric graph"),
    "divergence": (("js", "jaccard", "cosine"), "distances must lie in [0, 1]"),
    "fusion": (("squared", "euclidean"), "a diffusion distance needs the whole graph"),
    "regularizer": (("identity", "graph"), "a matrix knows nothing of a new query"),
}
CLUSTERS = {"expanded": EXPANDED, "reciprocal": RECIPROCAL, "knn": NEAREST}


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
    return method._fitted(n)._list_length()


def polynomial_of(method: CAS) -> Polynomial | None:
    """The diffusion as a polynomial of S; None where F is the affinity itself."""
    alpha, tol, regularizer = 1 / (1 + method.mu), method.tol, str(method.regularizer)
    if method.similarity == "original":
        return None
    if method.similarity == "smoothed":
        return tensor_product(alpha, tol)
    if method.solver == "iterate":
        return iterated(alpha, regularizer, int(method.steps or 0), str(method.start), tol)
    return converged(alpha, regularizer, tol)


def full_length(method: CAS) -> int:
    """The length of the lists that clusters are made from, the row itself counted."""
    return method.k1 + (0 if method.self_counts else 1)


def half_length(method: CAS) -> int:
    """The length of half lists, the row itself counted."""
    return max(method.k1 // 2 + (0 if method.self_counts else 1), 1)


def needs_f(method: CAS) -> bool:
    """Whether rows of F before smoothing are asked for again."""
    return method.smoothing == "aqe" or (method.smoothing == "nss" and method.guide != "walk")


def walk_of(method: CAS) -> Walk | None:
    """The diffusion for the kernels; None where F is the affinity itself."""
    polynomial = polynomial_of(method)
    if polynomial is None:
        return None
    return Walk(
        k=int(method.graph_k or 1) + 1,
        sigma2=float(method.sigma) ** 2,
        kappa=float(method.kappa),
        decay=float(polynomial.decay),
        floor=0.02 * float(np.sqrt(polynomial.tol)),
        powers=polynomial.powers,
        binomial=polynomial.binomial,
        series=polynomial.series,
    )


def options_of(method: CAS, n: int) -> Options:
    """The parameters of the stages for the kernels, for ``n`` rows and a query."""
    smoothing = NONE
    if method.smoothing is not None:
        guided = BY_WALK if method.guide == "walk" else BY_SIMILARITY
        smoothing = AVERAGE if method.smoothing == "aqe" else guided
    return Options(
        clusters=CLUSTERS[str(method.clusters)],
        k2=method.k2,
        full=full_length(method),
        half=half_length(method),
        sigma2=float(method.sigma) ** 2,
        smoothing=smoothing,
        walk_k=int(method.walk_k or 1),
        beta=float(method.beta or 0),
        enhance_k=int(method.enhance_k or 1) if method.enhancement else 0,
        kappa=float(method.kappa),
        keep=min(int(method.keep or 0), n + 1),
        squared=method.propagation == "square",
    )
