"""Text search: MAP and nDCG@10 of plain search, re-ranking and projections over sentence vectors.

    python benchmarks/bench_text.py [--save] [--data FOLDER] [--sets a,b]

FOLDER holds the feature sets (default ../shared/data beside the repository): CISI (questions and
abstracts, queries of another kind than the gallery), Banking77 and BBC news (short texts and texts
among their own kind), all by all-MiniLM-L6-v2. Sets are whole; all that a set has are asked.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np

import kinrank
import results
from bench_projection import ROOT, load
from kinrank.evaluate import Plain, judged
from kinrank.registry import method_class

SETS = ("cisi-minilm", "banking77-minilm", "bbcnews-minilm")
AUTO = "cas(params=auto)"
METHODS = {
    "none": partial(Plain, metric="cosine"),
    "cas": partial(kinrank.CAS, metric="cosine"),
    "cas(omega=0.7)": partial(kinrank.CAS, metric="cosine", omega=0.7),
    "kreciprocal": partial(method_class("kreciprocal"), metric="cosine"),
    "ecn": partial(method_class("ecn"), metric="cosine"),
    "gnn": partial(method_class("gnn"), metric="cosine"),
}
MAPS = (None, "pairs", "views")


def measured(ranking, qrels):
    """MAP and nDCG@10 in per cent."""
    result = judged(ranking, qrels, k=10)
    return 100 * result.mAP, 100 * result.nDCG[10]


def scores(place):
    """Method and map -> MAP and nDCG@10."""
    queries, gallery, right, _ = load(place)
    qrels = {
        str(query): {str(row): 1 for row in np.flatnonzero(line)}
        for query, line in enumerate(right)
    }
    found = {}
    for kind in MAPS:
        learnt = None if kind is None else kinrank.Projection.fit(gallery, kind=kind)
        for word, make in METHODS.items():
            found[word, kind] = measured(make(whiten=learnt).rerank(queries, gallery), qrels)
            print(place.name, word, kind, found[word, kind], file=sys.stderr, flush=True)
    ranking = kinrank.rerank(queries, gallery, params="auto")
    found[AUTO, None] = measured(ranking, qrels)
    print(place.name, AUTO, found[AUTO, None], file=sys.stderr, flush=True)
    return found


def main():
    """A line for each method and map, MAP and nDCG@10 of each set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--sets", default=",".join(SETS))
    options = parser.parse_args()
    warnings.simplefilter("ignore", kinrank.KinrankWarning)
    names = options.sets.split(",")
    of_set = {name: scores(options.data / name) for name in names}
    heads = [f"{name} {metric}" for name in names for metric in ("MAP", "nDCG@10")]
    print("| method | map | " + " | ".join(heads) + " | mean MAP | mean nDCG@10 |")
    print("| --- " * (4 + len(heads)) + "|")
    for word, kind in of_set[names[0]]:
        pairs = np.array([of_set[name][word, kind] for name in names])
        cells = [f"{value:.1f}" for value in [*pairs.ravel(), *pairs.mean(axis=0)]]
        print(f"| `{word}` | {kind or ''} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    results.run(main, __doc__)
