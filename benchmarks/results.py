"""Result files: `--save` keeps what a benchmark prints, with commit, processor and date.

    python benchmarks/bench_cas.py speed --save     # benchmarks/results/bench_cas-speed.json
    python benchmarks/page.py                       # docs/benchmarks.md, and tables of other pages

A benchmark prints Markdown, or plain text. Tables are kept as columns and rows.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks" / "results"
FLAG = "--save"


class Tee(io.TextIOBase):
    """Writes to the terminal, and remembers."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.parts = stream, []

    def write(self, text: str) -> int:
        self.parts.append(text)
        return self.stream.write(text)

    def flush(self) -> None:
        self.stream.flush()


def run(main: Callable[[], Any], title: str | None) -> None:
    """Run a benchmark; with `--save` among its arguments, keep what it prints."""
    if FLAG not in sys.argv:
        main()
        return
    sys.argv.remove(FLAG)
    arguments = sys.argv[1:]
    with redirect_stdout(Tee(sys.stdout)) as tee:
        main()
    save(Path(sys.argv[0]).stem, arguments, (title or "").partition("\n")[0], "".join(tee.parts))


def save(script: str, arguments: list[str], title: str, text: str) -> Path:
    """Write the result file of a run."""
    words = [word.strip("-") for word in arguments if "/" not in word]
    name = re.sub(r"[^\w.-]+", "-", "-".join([script, *words])).strip("-")
    path = FOLDER / f"{name}.json"
    shown = [Path(word).name if "/" in word else word for word in arguments]
    content = {
        "title": title.rstrip("."),
        "command": " ".join(["python", f"benchmarks/{script}.py", *shown]),
        **surroundings(),
        "blocks": blocks(text),
    }
    FOLDER.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def surroundings() -> dict[str, Any]:
    """Where and when."""
    commit = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "src")
    return {
        "commit": commit + (" with changes" if changed else ""),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("numpy", "numba")},
    }


def blocks(text: str) -> list[dict[str, Any]]:
    """Headings, tables and other lines, in their order."""
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        last = found[-1] if found else {}
        if line.startswith("#"):
            found.append({"heading": line.lstrip("# ")})
        elif line.startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if "columns" not in last:
                found.append({"columns": cells, "rows": []})
            elif not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
                last["rows"].append(cells)
        elif "text" in last:
            last["text"] += "\n" + line
        elif line.strip():
            found.append({"text": line})
    for block in found:
        if "text" in block:
            block["text"] = block["text"].rstrip()
    return found


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],  # noqa: S607
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip()


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = re.findall(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return names[0] if names else platform.machine()
