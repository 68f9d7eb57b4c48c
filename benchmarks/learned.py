"""The learned methods on identities they have not seen: mAP, time and memory of training.

    python benchmarks/learned.py [--work FOLDER] [--methods gss,csa] [--threads 1] [FOLDER ...]

Each FOLDER holds query.npy, gallery.npy, query_ids.npy, gallery_ids.npy and perhaps cameras. Half
of the identities (seed 0) is trained on, with all their rows; the queries and gallery rows of the
other half are the test, with the gallery rows of identities that no query has. Everything is done
with the commands `kinrank train` and `kinrank eval`, which are printed; what is done is kept in
--work and not done again. Prints Markdown tables.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

import results

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
SETS = (
    "market1501-retail-0288",
    "cuhk03-retail-0287",
    "grocery-efflite0-rmac",
    "coil100-efflite0-gem",
)
TRAINED = ("gss", "csa", "ssr", "lattqe")
LABELS = {"none": "none", "aqe": "aqe", "cas": "cas", "lattdba": "lattqe, dba"}


def prepare(folder: Path, work: Path) -> None:
    """Split a set by identity into files to train on and a folder to test with."""
    if (work / "split.json").exists():
        return
    parts = {path.stem: np.load(path) for path in folder.glob("*.npy")}
    known = np.unique(parts["query_ids"])
    train = np.random.default_rng(0).permutation(known)[: len(known) // 2]
    in_train = {side: np.isin(parts[f"{side}_ids"], train) for side in ("query", "gallery")}
    (work / "test").mkdir(parents=True, exist_ok=True)
    for kind in ("", "_ids", "_cams"):
        if f"query{kind}" not in parts:
            continue
        both = [parts[f"{side}{kind}"][in_train[side]] for side in in_train]
        name = {"": "train", "_ids": "train_labels", "_cams": "train_cams"}[kind]
        np.save(work / f"{name}.npy", np.concatenate(both))
        for side, inside in in_train.items():
            np.save(work / "test" / f"{side}{kind}.npy", parts[f"{side}{kind}"][~inside])
    (work / "split.json").write_text(json.dumps({"trained on": train.tolist()}))


def run(result: Path, *command: object) -> dict:
    """What a command said as JSON, from the file of an earlier run if there is one."""
    words = [str(word) for word in command]
    print("$ kinrank " + shlex.join(words), file=sys.stderr, flush=True)
    if not result.exists():
        done = subprocess.run(
            [sys.executable, "-m", "kinrank", *words, "--json"],
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        result.write_text(done.stdout)
    return json.loads(result.read_text())


def train(method: str, work: Path, threads: int) -> dict:
    out = work / f"{method}.safetensors"
    if method == "gss":
        data = ["--features", work / "test" / "gallery.npy"]
    else:
        data = ["--features", work / "train.npy", "--labels", work / "train_labels.npy"]
        if (work / "train_cams.npy").exists():
            data += ["--cams", work / "train_cams.npy"]
    args = ("train", method, *data, "--out", out, "--threads", threads)
    return run(work / f"{method}.train.json", *args)


def evaluate(name: str, work: Path, threads: int) -> float:
    method = {"lattdba": "lattqe"}.get(name, name)
    spec = name
    if method in TRAINED:
        more = ",dba=True" if name == "lattdba" else ""
        spec = f"{method}(weights={work / method}.safetensors{more})"
    args = ("eval", "--data", f"{work / 'test'},unit", "--method", spec, "--threads", threads)
    return 100 * run(work / f"{name}.eval.json", *args)["metrics"]["mAP"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, default=[SHARED / name for name in SETS])
    parser.add_argument("--work", type=Path, default=Path("learned-work"))
    parser.add_argument("--methods", default=",".join(TRAINED))
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    methods = args.methods.split(",")
    columns = ["none", "aqe", "cas", *methods] + ["lattdba"] * ("lattqe" in methods)
    quality, cost = [], []
    for folder in args.folders:
        work = args.work / folder.name
        prepare(folder, work)
        for method in methods:
            card = train(method, work, args.threads)
            held = card["metrics"]
            shown = "-" if "mAP" not in held else f"{100 * held['mAP none']:.1f}, "
            shown += f"{100 * held['mAP']:.1f}" if "mAP" in held else ""
            cells = [folder.name, method, f"{card['data']['rows']:,} x {card['dimension']}"]
            cells += [f"{card['size']:,}", f"{held['epochs']:.0f}", f"{card['seconds']:.0f}"]
            cost.append([*cells, f"{card['peak_memory_bytes'] / 1e9:.2f}", shown])
        found = [evaluate(name, work, args.threads) for name in columns]
        quality.append([folder.name, *(f"{value:.1f}" for value in found)])
    print_table(["set", *(LABELS.get(name, name) for name in columns)], quality)
    head = "set, method, rows, weights, epochs, seconds, peak GB, held-out mAP before, after"
    print_table([*head.split(", ")[:7], "held-out mAP before, after"], cost)


def print_table(head: list[str], rows: list[list[str]]) -> None:
    for row in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(row) + " |")
    print()


if __name__ == "__main__":
    results.run(main, __doc__)
