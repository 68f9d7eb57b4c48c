"""A service over an index, and a page where re-ranking can be looked at.

kinrank serve INDEX --images FOLDER
"""

from __future__ import annotations

from kinrank.serve.app import create_app
from kinrank.serve.run import serve
from kinrank.serve.service import Service
from kinrank.serve.settings import Settings

__all__ = ["Service", "Settings", "create_app", "serve"]
