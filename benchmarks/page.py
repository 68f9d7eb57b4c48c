"""The page of benchmarks, and tables on other pages, from result files.

    python benchmarks/page.py [--check]

Writes docs/benchmarks.md from benchmarks/results/*.json. On other pages it fills what lies between
`<!-- table: NAME -->` and `<!-- /table -->` with the first table of NAME.json, or of another run of
the same benchmark where that one is not there.
--check writes nothing and fails if a page is not what it would write.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from results import FOLDER, ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
FILLED = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- /table -->)", re.DOTALL)
HEAD = """# Benchmarks

Every figure here is printed by a script of `benchmarks/`, kept with `--save` in
`benchmarks/results`, and put on this page by `benchmarks/page.py`. Each section names its command,
commit, processor and date. Seconds depend on the machine and on what else runs there; ratios within
a section do so much less.
`make bench` measures everything again.
"""


def read() -> dict[str, dict[str, Any]]:
    """The result files by name."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(FOLDER.glob("*.json"))
    }


def table(block: dict[str, Any]) -> str:
    """A table in Markdown."""
    columns = block["columns"]
    lines = [columns, ["---"] * len(columns), *block["rows"]]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def section(result: dict[str, Any], before: dict[str, Any] | None) -> str:
    """One run: what, how, where and when, and what came out; runs of one kind share a title."""
    where = ", ".join(
        [f"{result['processor']}, {result['cores']} cores", f"Python {result['python']}"]
        + [f"{name} {number}" for name, number in result["packages"].items()]
    )
    known = before is not None and before["title"] == result["title"]
    parts = [] if known else [f"## {result['title']}"]
    parts += [
        f"`{result['command']}`",
        f"Commit {result['commit']}, {result['date']}. {where}.",
    ]
    for block in result["blocks"]:
        if "heading" in block:
            parts.append(f"**{block['heading']}**")
        elif "columns" in block:
            parts.append(table(block))
        else:
            parts.append(f"```text\n{block['text']}\n```")
    return "\n\n".join(parts)


def fill(text: str, results: dict[str, dict[str, Any]]) -> str:
    """A page with its tables."""

    def filled(match: re.Match[str]) -> str:
        name = match[2]
        runs = [run for run in results if run == name or run.startswith(f"{name}-")]
        if not runs:  # not measured yet
            return match[0]
        tables = [block for block in results[min(runs, key=len)]["blocks"] if "columns" in block]
        return match[1] + "\n" + table(tables[0]) + "\n\n" + match[3]

    return FILLED.sub(filled, text)


def pages() -> dict[Path, str]:
    """Everything this script writes."""
    results = read()
    runs = list(results.values())
    sections = map(section, runs, [None, *runs[:-1]])
    made = {PAGE: "\n\n".join([HEAD.rstrip(), *sections]) + "\n"}
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        if path != PAGE and FILLED.search(text):
            made[path] = fill(text, results)
    return made


def main() -> None:
    stale = [
        path
        for path, text in pages().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" in sys.argv:
        if stale:
            sys.exit(
                "Run `python benchmarks/page.py`; it would change " + ", ".join(map(str, stale))
            )
        return
    for path in stale:
        path.write_text(pages()[path], encoding="utf-8")
        print(f"{path.relative_to(ROOT)} written")


if __name__ == "__main__":
    main()
