"""kinrank: nearest-neighbour search, right the second time.

ranking = kinrank.rerank(queries, gallery, k=100)
ranking = kinrank.CAS(k1=60, k2=6).rerank(queries, gallery, k=100)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# The packages `methods` and `tune` before the functions of these names: a first import of a package
# later on would take the function's place.
from kinrank import methods as _package  # noqa: F401
from kinrank import tune as _tune_package  # noqa: F401
from kinrank._api import group, rerank, tune
from kinrank._version import __version__
from kinrank.errors import (
    ClusterError,
    FileFormatError,
    InvalidInputError,
    KinrankError,
    KinrankWarning,
    LockedError,
    OptionalDependencyError,
    StoreError,
    UnknownIdError,
    UnknownNameError,
    UnsupportedError,
    UnwritableError,
)
from kinrank.registry import class_modules as _class_modules
from kinrank.registry import methods, register
from kinrank.types import Neighbors, Ranking

if TYPE_CHECKING:
    from kinrank import cluster, compat, datasets, evaluate, features, learned, stores
    from kinrank.cas import CAS
    from kinrank.client import Client
    from kinrank.compiling import warmup
    from kinrank.groups import Constraints, Corrections, Groups, near_duplicates
    from kinrank.index import Index, open  # noqa: A004  in the manner of PIL.Image.open
    from kinrank.jaccard import jaccard_graph
    from kinrank.methods.base import Method
    from kinrank.methods.context.cdm import CDM
    from kinrank.methods.context.ecn import ECN
    from kinrank.methods.context.gnn import GNN
    from kinrank.methods.context.knn import KNN
    from kinrank.methods.context.kreciprocal import KReciprocal
    from kinrank.methods.context.sca import SCA
    from kinrank.methods.context.stml import STML
    from kinrank.methods.diffusion.dfs import DFS
    from kinrank.methods.diffusion.egt import EGT
    from kinrank.methods.diffusion.eir import EIR
    from kinrank.methods.diffusion.fsr import FSR
    from kinrank.methods.diffusion.manifold import Manifold
    from kinrank.methods.diffusion.rdp import RDP
    from kinrank.methods.learned.gss import GSS
    from kinrank.methods.learned.lattqe import LAttQE
    from kinrank.methods.learned.trained import CSA, SSR
    from kinrank.methods.own import DistanceMethod
    from kinrank.methods.query_expansion.expansion import AQE, DQE, AlphaQE, AQEwD
    from kinrank.methods.query_expansion.sg import SG
    from kinrank.pool import rerank_pool
    from kinrank.projection.projection import Projection
    from kinrank.runs.run import Run
    from kinrank.stores.attach import attach
    from kinrank.stores.follow import follow
    from kinrank.tables import Table, read_table

__all__ = [
    "AQE",
    "CAS",
    "CDM",
    "CSA",
    "DFS",
    "DQE",
    "ECN",
    "EGT",
    "EIR",
    "FSR",
    "GNN",
    "GSS",
    "KNN",
    "RDP",
    "SCA",
    "SG",
    "SSR",
    "STML",
    "AQEwD",
    "AlphaQE",
    "Client",
    "ClusterError",
    "Constraints",
    "Corrections",
    "DistanceMethod",
    "FileFormatError",
    "Groups",
    "Index",
    "InvalidInputError",
    "KReciprocal",
    "KinrankError",
    "KinrankWarning",
    "LAttQE",
    "LockedError",
    "Manifold",
    "Method",
    "Neighbors",
    "OptionalDependencyError",
    "Projection",
    "Ranking",
    "Run",
    "StoreError",
    "Table",
    "UnknownIdError",
    "UnknownNameError",
    "UnsupportedError",
    "UnwritableError",
    "__version__",
    "attach",
    "cluster",
    "compat",
    "datasets",
    "evaluate",
    "features",
    "follow",
    "group",
    "jaccard_graph",
    "learned",
    "methods",
    "near_duplicates",
    "open",
    "read_table",
    "register",
    "rerank",
    "rerank_pool",
    "stores",
    "tune",
    "warmup",
]

# Loaded on first use, so that `import kinrank` does not bring numba.
_LAZY = {
    **_class_modules(),
    "Client": "kinrank.client",
    "DistanceMethod": "kinrank.methods.own",
    "Constraints": "kinrank.groups",
    "Corrections": "kinrank.groups",
    "Groups": "kinrank.groups",
    "Index": "kinrank.index",
    "Method": "kinrank.methods.base",
    "Run": "kinrank.runs.run",
    "Projection": "kinrank.projection.projection",
    "Table": "kinrank.tables",
    "attach": "kinrank.stores.attach",
    "follow": "kinrank.stores.follow",
    "jaccard_graph": "kinrank.jaccard",
    "near_duplicates": "kinrank.groups",
    "open": "kinrank.index",
    "read_table": "kinrank.tables",
    "rerank_pool": "kinrank.pool",
    "warmup": "kinrank.compiling",
}
_SUBMODULES = (
    "cluster",
    "compat",
    "datasets",
    "evaluate",
    "features",
    "learned",
    "sklearn",
    "stores",
    "testing",
)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return import_module(f"kinrank.{name}")
    raise AttributeError(f"module 'kinrank' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
