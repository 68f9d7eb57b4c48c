"""What is to be known of an index or a projection that is handed on, as a page of Markdown."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import kinrank


def index_card(index: kinrank.Index, file: Path) -> str:
    """The card of an index; file : where it is kept, whose date is the card's."""
    about = index.info()
    facts = {
        "rows": f"{about['rows']:,} of {about['columns']:,} columns",
        "model": about["recipe"] or "not known",
        "metric": about["parameters"]["metric"],
        "projection": about["projection"] or "none",
        "search": f"{about['search']}, recall {about['recall']:.3f}",
        "ids": about["ids"],
        "attributes": ", ".join(about["attributes"]) or "none",
    }
    lines = _head(facts, file)
    given = {name: value for name, value in about["parameters"].items() if value is not None}
    lines += ["", "## Parameters", ""]
    lines.append(", ".join(f"`{name}={_cell(str(value))}`" for name, value in given.items()))
    if index.chosen is not None:
        lines += ["", f"Chosen without labels for {index.chosen.rows:,} rows:", ""]
        lines += [f"- {name}: {text}" for name, text in index.chosen.sentences().items()]
    lines += _use(f'index = kinrank.open("{file.name}")', "ranking = index.search(queries, k=10)")
    return "\n".join(lines)


def projection_facts(projection: kinrank.Projection) -> dict[str, str]:
    """What a projection says of itself, for people."""
    learnt = f"{projection.rows:,} rows" if projection.rows else "not known"
    return {
        "projection": str(projection.kind),
        "columns": f"{projection.width:,} to {projection.dims:,}",
        "learnt from": learnt,
        "compare by": "cosine",
        "digest": projection.digest,
        "why": projection.reason or "not known",
    }


def projection_card(projection: kinrank.Projection, file: Path) -> str:
    """The card of a projection; file : where it is kept, whose date is the card's."""
    lines = _head(projection_facts(projection), file)
    lines += _use(
        f'projection = kinrank.Projection.load("{file.name}")',
        "vectors = projection.transform(vectors)  # queries too; then search by cosine",
    )
    return "\n".join(lines)


def _head(facts: dict[str, str], file: Path) -> list[str]:
    """The name of a file and a table of facts, those of the file itself last."""
    status = file.stat()
    facts = {
        **facts,
        "size": f"{status.st_size / 1e6:,.1f} MB",
        "date": datetime.fromtimestamp(status.st_mtime, UTC).date().isoformat(),
        "kinrank": kinrank.__version__,
    }
    lines = [f"# {file.name}", "", "| | |", "| --- | --- |"]
    return lines + [f"| {name} | {_cell(text)} |" for name, text in facts.items()]


def _use(*code: str) -> list[str]:
    """How to use it, in Python."""
    return ["", "## Use", "", "```python", "import kinrank", "", *code, "```"]


def _cell(text: str) -> str:
    """Text that ends no cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
