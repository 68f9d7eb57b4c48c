"""The same stages on many machines, by Ray (extra ``ray``): not a bit of the result differs.

with kinrank.cluster.connect("ray://host:10001") as cluster:
    ranking = kinrank.rerank(queries, gallery, k=100, run=kinrank.Run(cluster=cluster))
    print(cluster.report)
"""

from kinrank.runs.ray.report import Report
from kinrank.runs.ray.session import Cluster, connect

__all__ = ["Cluster", "Report", "connect"]
