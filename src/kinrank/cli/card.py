"""What is to be known of an index that is handed on, as a page of Markdown."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import kinrank


def index_card(index: kinrank.Index, file: Path) -> str:
    """The card of an index; file : where it is kept, whose date is the card's."""
    about = index.info()
    status = file.stat()
    day = datetime.fromtimestamp(status.st_mtime, UTC).date().isoformat()
    facts = {
        "rows": f"{about['rows']:,} of {about['columns']:,} columns",
        "model": about["recipe"] or "not known",
        "metric": about["parameters"]["metric"],
        "projection": about["projection"] or "none",
        "search": f"{about['search']}, recall {about['recall']:.3f}",
        "ids": about["ids"],
        "attributes": ", ".join(about["attributes"]) or "none",
        "size": f"{status.st_size / 1e6:,.1f} MB",
        "date": day,
        "kinrank": kinrank.__version__,
    }
    lines = [f"# {file.name}", "", "| | |", "| --- | --- |"]
    lines += [f"| {name} | {_cell(text)} |" for name, text in facts.items()]
    given = {name: value for name, value in about["parameters"].items() if value is not None}
    lines += ["", "## Parameters", ""]
    lines.append(", ".join(f"`{name}={_cell(str(value))}`" for name, value in given.items()))
    if index.chosen is not None:
        lines += ["", f"Chosen without labels for {index.chosen.rows:,} rows:", ""]
        lines += [f"- {name}: {text}" for name, text in index.chosen.sentences().items()]
    lines += ["", "## Use", "", "```python", "import kinrank", ""]
    lines += [
        f'index = kinrank.open("{file.name}")',
        "ranking = index.search(queries, k=10)",
        "```",
    ]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Text that ends no cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
