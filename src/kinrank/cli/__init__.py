"""The command `kinrank`. Nothing here is imported by the library."""

from __future__ import annotations

import sys

from kinrank.errors import OptionalDependencyError
from kinrank.optional import require


def main() -> None:
    """Run the command; without the extra ``cli``, say how to get it."""
    try:
        require("click", extra="cli", purpose="The command line")
    except OptionalDependencyError as error:
        sys.exit(f"Error: {error}")
    from kinrank.cli.app import app

    app(prog_name="kinrank")
