"""Small networks as they begin, in files, for tests that ask only how methods behave."""

import atexit
import shutil
import tempfile
from dataclasses import asdict
from functools import cache
from pathlib import Path

from kinrank.learned import Card, recipe_class

FOLDER = Path(tempfile.mkdtemp(prefix="kinrank-tests-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
SMALL = {
    "csa": {"anchors": 12, "m": 20, "width": 12, "heads": 3},
    "lattqe": {"kqe": 6, "pool": 20, "heads": 2},
    "ssr": {"m": 10, "hidden": 8},
}

# Sizes that train in a second or two.
TINY = {
    "csa": {"anchors": 16, "m": 16, "width": 12, "heads": 3, "epochs": 3},
    "lattqe": {"kqe": 4, "pool": 24, "epochs": 3},
    "ssr": {"m": 12, "hidden": 16, "epochs": 3},
    "gss": {"epochs": 12, "k1": 3},
}
SUPERVISED = ["csa", "lattqe", "ssr"]
WIDTH = 12


@cache
def weights(name, width):
    """A file of weights with random numbers in every layer, so that all of it matters."""
    import torch

    from kinrank.learned.fitting import build
    from kinrank.learned.network import size, to_arrays
    from kinrank.learned.recipes import save_weights

    recipe = recipe_class(name)(**SMALL[name])
    network = build(recipe, width)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    path = FOLDER / f"{name}-{width}.safetensors"
    card = Card(method=name, dimension=width, parameters=asdict(recipe), size=size(network))
    save_weights(path, to_arrays(network), card)
    return path


def untrained(name, width):
    """The parameters that a method needs to run at all."""
    return {"weights": str(weights(name, width))} if name in SMALL else {}
