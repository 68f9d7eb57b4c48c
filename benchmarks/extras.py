"""What the extras weigh: packages and megabytes that each adds to the library.

    python benchmarks/extras.py

Sizes are those of the files installed here, compiled Python left out; what an extra needs is
followed through the packages' own requirements. Extras that are not installed are left out.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement

import results

PURPOSES = {
    "cli": "the command `kinrank`",
    "report": "figures (PDF, SVG) and HTML pages",
    "demo": "`kinrank demo`, the digits",
    "images": "pictures to vectors, with your own ONNX network",
    "efficientnet": "and three networks to begin with",
    "serve": "the service and its page",
    "ann": "stores over faiss",
    "lancedb": "stores over LanceDB",
    "pgvector": "stores over PostgreSQL",
    "qdrant": "stores over Qdrant",
    "milvus": "stores over Milvus",
    "chroma": "stores over Chroma",
    "sqlite-vec": "stores over SQLite",
    "ray": "several machines",
    "torch": "methods that learn, torch modules as networks",
    "sklearn": "`kinrank.sklearn`: graphs for scikit-learn, t-SNE, UMAP",
    "scipy": "`jaccard_graph`, MATLAB files",
    "pandas": "`Ranking.to_pandas`",
    "polars": "`Ranking.to_polars`",
    "tables": "parquet files",
    "ranx": "runs for ranx",
    "cuhk03": "the original file of CUHK03",
}


def needed(words: Iterable[str], extra: str = "") -> set[tuple[str, str]]:
    """Requirements that hold here, as (package, extra)."""
    found = set()
    for word in words:
        requirement = Requirement(word)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            name = re.sub(r"[-_.]+", "-", requirement.name).lower()
            found |= {(name, inner) for inner in requirement.extras or {""}} | {(name, "")}
    return found


def requirements(package: str, extra: str) -> set[tuple[str, str]]:
    """What a package needs with an extra; kinrank's are those of this pyproject.toml."""
    if package != "kinrank":
        return needed(distribution(package).requires or [], extra)
    project = tomllib.loads((results.ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    more = project["optional-dependencies"][extra] if extra else []
    return needed([*project["dependencies"], *more])


def closure(extra: str = "") -> set[str]:
    """The packages that kinrank needs with an extra; one that is missing raises."""
    todo, seen = {("kinrank", extra)}, set()
    while todo:
        seen.add(pair := todo.pop())
        todo |= requirements(*pair) - seen
    return {name for name, _ in seen} - {"kinrank"}


def megabytes(packages: Iterable[str]) -> float:
    """The size of their files."""
    files = [file for name in packages for file in distribution(name).files or []]
    sizes = [file.size or 0 for file in files if file.suffix != ".pyc"]
    return sum(sizes) / 1e6


def main():
    base = closure()
    print("| extra | adds | packages | MB |")
    print("| --- | --- | --- | --- |")
    print(
        f"| (none) | the library: {', '.join(sorted(base))} | {len(base)} | {megabytes(base):.0f} |"
    )
    for extra, purpose in PURPOSES.items():
        try:
            more = closure(extra) - base
        except PackageNotFoundError:
            continue
        print(f"| `{extra}` | {purpose} | {len(more)} | {megabytes(more):.0f} |")


if __name__ == "__main__":
    results.run(main, __doc__)
