"""Where kinrank keeps what it can make again: compiled kernels and converted networks."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """``KINRANK_CACHE``, or a folder of kinrank in the user's cache."""
    chosen = os.environ.get("KINRANK_CACHE")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "kinrank"
