"""The command `kinrank`. Nothing here is imported by the library."""

from __future__ import annotations

import sys
from io import TextIOWrapper

from kinrank.errors import OptionalDependencyError
from kinrank.optional import require


def main() -> None:
    """Run the command; without the extra ``cli``, say how to get it."""
    try:
        require("click", extra="cli", purpose="The command line")
    except OptionalDependencyError as error:
        sys.exit(f"Error: {error}")
    for stream in (sys.stdout, sys.stderr):
        # A pipe on Windows may know fewer letters than we print: a sign less is no failure.
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="replace")
    from kinrank.cli.app import app

    app(prog_name="kinrank")
