"""With the real open-metric-learning, which no extra installs.

It imports torchvision for its image data sets, which takes no part here; where torchvision cannot
be imported (a CUDA build beside a CPU build of torch), an empty stand-in takes its place.
"""

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np
import pytest

import kinrank

pytestmark = [
    pytest.mark.external,
    pytest.mark.filterwarnings("ignore"),  # those of the packages this one brings along
]


class Whatever(type):
    """The type of a class that has every attribute."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return cls


class Anything(metaclass=Whatever):
    """A class that can be made from whatever."""

    def __init__(self, *args, **kwargs):
        pass


class StandIn(ModuleType):
    """A module in which every name is found."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


class Finder:
    """Finds stand-ins for torchvision and all its parts."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torchvision":
            return ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


def import_retrieval():
    try:
        importlib.import_module("torchvision")
    except (ImportError, RuntimeError, OSError):
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        sys.meta_path.insert(0, Finder())
    return importlib.import_module("oml.retrieval")


class Dataset:
    """Queries and gallery of one set of items, by their numbers."""

    def __init__(self, n_queries, n_gallery):
        self.extra_data = {}
        import torch

        self.ids = torch.arange(n_queries + n_gallery)
        self.n_queries = n_queries

    def __len__(self):
        return len(self.ids)

    def get_query_ids(self):
        return self.ids[: self.n_queries]

    def get_gallery_ids(self):
        return self.ids[self.n_queries :]


def test_results_are_reordered():
    retrieval = import_retrieval()
    import torch
    from oml.interfaces.retrieval import IRetrievalPostprocessor

    from kinrank.compat.oml import Reranker

    rng = np.random.default_rng(0)
    rows = torch.tensor(rng.normal(size=(40, 6)), dtype=torch.float32)
    dataset = Dataset(5, 35)
    first = torch.cdist(rows[:5], rows[5:]).sort(dim=1)
    rr = retrieval.RetrievalResults(list(first.values[:, :20]), list(first.indices[:, :20]))
    reranker = Reranker(rows, "kreciprocal", k1=8, k2=3)
    assert isinstance(reranker, IRetrievalPostprocessor)
    got = reranker.process(rr, dataset=dataset)
    whole = kinrank.rerank(rows[:5], rows[5:], "kreciprocal", k1=8, k2=3)
    for row in range(5):
        kept = [i for i in whole.indices[row] if i in set(first.indices[row, :20].tolist())]
        assert got.retrieved_ids[row].tolist() == kept
    with pytest.raises(kinrank.InvalidInputError, match="one item per embedding"):
        reranker.process(rr, dataset=Dataset(5, 3))
