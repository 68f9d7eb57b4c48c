"""Stores on a command line: a name in a Python module, where connections are made."""

from __future__ import annotations

import sys
from typing import Any

import click

from kinrank.cli.files import Decorator, ask, import_modules
from kinrank.search.searcher import Store


def ask_store(name: str, text: str, **options: Any) -> Decorator:
    """An option for a store."""
    return ask(name, text, metavar="MODULE:NAME", **options)


def opened_store(text: str) -> Store:
    """The store, or what makes one, that a module holds, such as ``shop:store`` of shop.py."""
    module, colon, name = text.partition(":")
    if not colon or not module or not name:
        raise click.BadParameter(
            f"the store must be MODULE:NAME, such as shop:store for `store` in shop.py, got "
            f"{text!r}."
        )
    import_modules([module])
    if not hasattr(sys.modules[module], name):
        raise click.BadParameter(f"the module {module} has no {name!r}.")
    store = getattr(sys.modules[module], name)
    if callable(store) and not isinstance(store, Store):
        store = store()
    if not isinstance(store, Store):
        raise click.BadParameter(
            f"{text} must be a store of kinrank.stores or make one, got {type(store).__name__}."
        )
    return store
