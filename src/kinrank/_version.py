"""The version, for whoever has to tell it."""

__version__ = "0.2.0"
