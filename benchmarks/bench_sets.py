"""mAP of every method on every set, in per cent.

    python benchmarks/bench_sets.py [--methods 'none;cas(k1=60,k2=6)'] [SET ...]

A set is `digits`, or a folder as `kinrank compare --data` takes it; without any, digits and the
sets of ../shared/data beside the repository. Rows are methods with their defaults, and CAS with a
larger k1 and with shortest paths. For Revisited sets the figure is mAP Medium.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import kinrank
import results
from kinrank import datasets
from kinrank.evaluate.spec import parse_method
from kinrank.registry import untrained_methods

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
CAS = ["cas", "cas(k1=60,k2=6)", "cas(geodesic=True)", "cas(k1=60,k2=6,geodesic=True)"]


def score(data, word):
    """mAP of a method, in per cent."""
    method = parse_method(word).build()
    found = data.evaluate(method.rerank(data.query.features, data.gallery.features))
    return 100 * getattr(found, "medium", found).mAP


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = sorted(path for path in SHARED.glob("*") if path.is_dir())
    parser.add_argument("sets", nargs="*", default=["digits", *map(str, here)])
    others = [name for name in untrained_methods() if name != "cas"]
    parser.add_argument("--methods", default=";".join(["none", *others, *CAS]))
    options = parser.parse_args()
    warnings.simplefilter("ignore", kinrank.KinrankWarning)
    sets = [datasets.load(place, unit=True) for place in options.sets]
    print("| method | " + " | ".join(data.name for data in sets) + " |")
    print("| --- " * (len(sets) + 1) + "|")
    for word in options.methods.split(";"):
        cells = [f"{score(data, word):.1f}" for data in sets]
        print(f"| `{word}` | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    results.run(main, __doc__)
