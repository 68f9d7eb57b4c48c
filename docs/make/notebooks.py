"""Notebooks from the scripts of examples: `python docs/make/notebooks.py [FOLDER]`.

The docstring and comments between paragraphs become text, paragraphs of code become cells.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import nbformat

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
IMPORTS = ("import ", "from ")
NAMES = ("labels", "living_gallery", "pictures")


def cells(source: str) -> list[tuple[str, str]]:
    """(kind, text) of each cell."""
    tree, lines = ast.parse(source), source.splitlines()
    title, _, rest = (ast.get_docstring(tree) or "").partition("\n")
    found = [("markdown", f"# {title.rstrip('.')}\n{rest}".rstrip())]
    begin = tree.body[0].end_lineno or 0
    for row, line in enumerate([*lines, ""]):
        inside = any(node.lineno <= row < (node.end_lineno or 0) for node in tree.body)
        if row >= begin and not line.strip() and not inside:
            for kind, text in paragraph(lines[begin:row]):
                if text.startswith(IMPORTS) and found[-1][1].startswith(IMPORTS):
                    text = f"{found.pop()[1]}\n\n{text}"  # noqa: PLW2901
                found.append((kind, text))
            begin = row + 1
    return found


def paragraph(lines: list[str]) -> list[tuple[str, str]]:
    """A comment in front of code is text of its own."""
    count = next((row for row, line in enumerate(lines) if not line.startswith("# ")), len(lines))
    said = " ".join(line[2:] for line in lines[:count])
    code = "\n".join(lines[count:])
    return [(kind, text) for kind, text in (("markdown", said), ("code", code)) if text]


def notebook(name: str) -> nbformat.NotebookNode:
    """The notebook of a script."""
    made = nbformat.v4.new_notebook()
    made.metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
    }
    kinds = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    for number, (kind, text) in enumerate(cells(source)):
        made.cells.append(kinds[kind](text, id=f"{name.replace('_', '-')}-{number}"))
    return made


def main(folder: Path) -> None:
    for name in NAMES:
        nbformat.write(notebook(name), folder / f"{name}.ipynb")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else EXAMPLES)
