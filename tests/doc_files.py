"""Stand-ins for the files that the pages name, and the evaluators of their blocks."""

import re
import shlex
import tomllib
from pathlib import Path

import click
import numpy as np
from sybil import Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

from cli_helpers import run
from kinrank import CAS, datasets, rerank
from kinrank.cli.app import app
from serve_process import serving

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ADDRESS = "http://127.0.0.1:8765"


def marked(example):
    """What the comment in front of a block says: `not run` and why, `service`, or nothing."""
    before = example.document.text[: example.region.start].rstrip()
    comment = re.search(r"<!-- (not run|service)(?:: (.+?))? -->$", before)
    return (comment[1], comment[2] or "") if comment else ("", "")


def python(example):
    """Run a block; one that cannot be run here is compiled, and says why it is not."""
    mark, reason = marked(example)
    if mark == "not run":
        assert reason, f"{example.path}:{example.line} must say why it is not run"
        compile(example.parsed, example.path, "exec")
    elif mark == "service":
        with serving("served.index") as server:
            code = example.parsed.replace(ADDRESS, server.url)
            exec(compile(code, example.path, "exec"), example.namespace)  # noqa: S102
    else:
        PythonEvaluator()(example)


def shell(example):
    """Run the commands of kinrank, one a line; of others their words are looked at."""
    mark, reason = marked(example)
    lines = example.parsed.replace("\\\n", " ").splitlines()
    commands = [words for line in lines if (words := shlex.split(line, comments=True))]
    assert commands, f"{example.path}:{example.line} has no command"
    if mark == "not run":
        assert reason, f"{example.path}:{example.line} must say why it is not run"
        for words in commands:
            look_at(words)
        return
    for program, *words in commands:
        assert program == "kinrank", f"{example.path}:{example.line} cannot run {program}"
        quicker = ["--no-isolate"] if words[0] == "compare" else []
        result = run(*words, *quicker)
        assert result.exit_code == 0, f"{example.path}:{example.line}: {words}\n{result.output}"


def look_at(words):
    """Commands that are not run: options exist, and so do extras."""
    if words[0] == "kinrank":
        command, words = app, words[1:]
        while isinstance(command, click.Group):
            command, words = command.commands[words[0]], words[1:]
        with command.make_context("kinrank", list(words), resilient_parsing=True) as context:
            known = {word for option in command.get_params(context) for word in option.opts}
        assert {word for word in words if re.match(r"--?[a-z]", word)} <= known, words
    elif words[:2] == ["pip", "install"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for word in words[2:]:
            extras = re.fullmatch(r"kinrank(?:\[(.+)\])?", word)[1]
            assert set((extras or "cli").split(",")) <= set(project["optional-dependencies"])


BLOCKS = Sybil([CodeBlockParser("python", python), CodeBlockParser("sh", shell)])


def write_standins(folder):
    """Small files with the names that the pages use."""
    data = datasets.load("toy")
    queries, gallery = data.query.features, data.gallery.features
    names = [f"image-{row}.jpg" for row in range(len(gallery))]
    np.save(folder / "q.npy", queries)
    np.save(folder / "g.npy", gallery)
    np.save(folder / "qi.npy", data.query.labels)
    np.save(folder / "gi.npy", data.gallery.labels)
    rerank(queries, gallery).save(folder / "ranking.npz")
    (folder / "ids.txt").write_text("\n".join(names), encoding="utf-8")
    np.save(folder / "new.npy", gallery[:2] + 0.1)
    (folder / "new.txt").write_text("new-3.jpg\nnew-4.jpg", encoding="utf-8")
    write_set(folder / "path" / "to" / "set", data)
    write_conditions(folder, len(queries), len(gallery))
    write_own_method(folder / "my_module.py")
    write_table(folder / "items.parquet", gallery)
    write_table(folder / "asked.parquet", queries)
    write_table(folder / "sold.parquet", gallery[:3])
    write_texts(folder, data)


def write_own_method(path):
    """The module of the page about methods of your own: its first block."""
    page = (ROOT / "docs" / "own.md").read_text(encoding="utf-8")
    path.write_text(page.partition("```python\n")[2].partition("```")[0], encoding="utf-8")


def write_table(path, vectors):
    """Items of a shop."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = len(vectors)
    columns = {
        "sku": [f"sku-{row}" for row in range(n)],
        "name": [f"item {row}" for row in range(n)],
    }
    columns["price"] = [row / 10 for row in range(n)]
    columns["embedding"] = pa.array(vectors.tolist(), pa.list_(pa.float32()))
    pq.write_table(pa.table(columns), path)


def write_texts(folder, data):
    """Documents, questions, and which documents are relevant for each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name, part in (("question", data.query), ("document", data.gallery)):
        ids = [f"{name}-{row}" for row in range(len(part))]
        embedding = pa.array(part.features.tolist(), pa.list_(pa.float32()))
        table = pa.table({"id": ids, "embedding": embedding})
        pq.write_table(table, folder / f"{name}s.parquet")
        np.save(folder / f"{name}s.npy", part.features)
    lines = [
        f"question-{query} 0 document-{row} 1\n"
        for query, label in enumerate(data.query.labels)
        for row in np.flatnonzero(data.gallery.labels == label)
    ]
    (folder / "qrels.txt").write_text("".join(lines), encoding="utf-8")


def write_conditions(folder, n_queries, n_gallery):
    """Attributes of the rows, rows that may be answers, and what each query shows."""
    np.save(folder / "cameras.npy", np.arange(n_gallery) % 4)
    np.save(folder / "own.npy", np.arange(n_queries) % 4)
    for name, words in {
        "species.txt": [("lynx", "fox", "owl")[row % 3] for row in range(n_gallery)],
        "rows.txt": map(str, range(0, n_gallery, 2)),
        "items.txt": [f"item {row // 3}" for row in range(n_queries)],
    }.items():
        (folder / name).write_text("\n".join(words), encoding="utf-8")


def write_set(folder, data):
    folder.mkdir(parents=True)
    for side in ("query", "gallery"):
        np.save(folder / f"{side}.npy", getattr(data, side).features)
        np.save(folder / f"{side}_ids.npy", getattr(data, side).labels)


def write_pictures(folder):
    """Pictures of two classes, and a tiny network."""
    from PIL import Image

    from picture_files import tiny_network

    rng = np.random.default_rng(0)
    for number in range(12):
        place = folder / "photos" / ("red", "blue")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 90, size=(48, 64, 3), dtype=np.uint8)
        pixels[..., 2 * (number % 2)] += 120
        Image.fromarray(pixels).save(place / f"{number}.jpg")
    tiny_network(folder / "net.onnx")


def write_served(folder):
    """An index with a.jpg and b.jpg; returns vectors to search it with."""
    rows = np.random.default_rng(0).normal(size=(60, 3))
    ids = ["a.jpg", "b.jpg", *(f"{row}.jpg" for row in range(58))]
    CAS(k1=8, k2=3).fit(rows, ids=ids).save(folder / "served.index")
    return rows[:2]


def write_handled(folder):
    """The index of a function."""
    CAS(k1=8, k2=3).fit(np.random.default_rng(0).normal(size=(60, 3))).save(
        folder / "gallery.index"
    )
