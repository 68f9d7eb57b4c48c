"""Re-ranked neighbours for scikit-learn and all that takes its graphs (extra ``sklearn``)."""

from kinrank.optional import require

require("sklearn", extra="sklearn", purpose="kinrank.sklearn")

from kinrank.sklearn.graphs import connected_graph  # noqa: E402  after the error with the cure
from kinrank.sklearn.neighbors import NeighborsTransformer  # noqa: E402
from kinrank.sklearn.projection import ProjectionTransformer  # noqa: E402

__all__ = ["NeighborsTransformer", "ProjectionTransformer", "connected_graph"]
