"""Which variant of CAS ranks better: mAP on folders of features with ground truth.

    python benchmarks/bench_variants.py [FOLDER ...]

Each folder holds query.npy, gallery.npy and gnd.json, or query_ids.npy and gallery_ids.npy (and
cameras). Prints a Markdown table; for Revisited sets the figure is mAP Medium.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np

import kinrank
import results
from kinrank import evaluate

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
SIZES = {"k1=20, k2=5": {"k1": 20, "k2": 5}, "k1=60, k2=6": {"k1": 60, "k2": 6}}
VARIANTS = {
    "paper": {"variant": "paper"},
    "paper, geodesic": {"variant": "paper", "geodesic": True},
    "authors": {"variant": "authors"},
    "authors, geodesic": {"variant": "authors", "geodesic": True},
    "authors, converged": {"variant": "authors", "solver": "local"},
}


def load(folder: Path):
    """Unit rows of float32, and a function from a ranking to its mAP in per cent."""
    query, gallery = (
        np.load(folder / f"{part}.npy").astype(np.float32) for part in ("query", "gallery")
    )
    query /= np.linalg.norm(query, axis=1, keepdims=True)
    gallery /= np.linalg.norm(gallery, axis=1, keepdims=True)
    if (folder / "gnd.json").exists():
        gnd = json.loads((folder / "gnd.json").read_text())
        return query, gallery, lambda ranking: 100 * evaluate.revisited(ranking, gnd).medium.mAP
    names = ("query_ids", "gallery_ids", "query_cams", "gallery_cams")
    labels = [
        np.load(folder / f"{name}.npy") for name in names if (folder / f"{name}.npy").exists()
    ]
    return query, gallery, lambda ranking: 100 * evaluate.reid(ranking, *labels).mAP


def main() -> None:
    """Print one row per set."""
    folders = [Path(name) for name in sys.argv[1:]] or sorted(
        path for path in SHARED.iterdir() if path.is_dir()
    )
    warnings.simplefilter("ignore", kinrank.KinrankWarning)
    columns = [(size, name) for size in SIZES for name in VARIANTS]
    print("| set | none | " + " | ".join(f"{name} ({size})" for size, name in columns) + " |")
    print("| --- " * (len(columns) + 2) + "|")
    for folder in folders:
        query, gallery, score = load(folder)
        cells = [score(kinrank.CAS(omega=1.0, k1=2, k2=1).rerank(query, gallery))]
        for size, name in columns:
            method = kinrank.CAS(**SIZES[size], **VARIANTS[name])
            cells.append(score(method.rerank(query, gallery)))
        print(
            f"| {folder.name} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |", flush=True
        )


if __name__ == "__main__":
    results.run(main, __doc__)
