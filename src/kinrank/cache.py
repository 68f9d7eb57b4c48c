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
        base = Path(os.environ.get("LOCALAPPDATA") or _home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = _home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache")
    return base / "kinrank"


def _home() -> Path:
    """The user's folder; in a container a user may have none, and then nothing can be kept."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)
