"""What mkdocs makes while it builds: the page of commands, from the parser's own help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from kinrank.cli.app import SETTINGS, app

MARK = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the help of every command where a page asks for it."""
    return markdown.replace(MARK, commands()) if MARK in markdown else markdown


def commands() -> str:
    """A heading and the help of every command."""
    return "\n\n".join(f"## {name}\n\n```text\n{text}\n```" for name, text in helps(app, "kinrank"))


def helps(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    """The help of a command, and of those below it."""
    settings = {**SETTINGS, "terminal_width": 90}
    with command.make_context(name, [], resilient_parsing=True, **settings) as context:
        yield name, command.get_help(context)
    if isinstance(command, click.Group):
        for below in sorted(command.commands):
            yield from helps(command.commands[below], f"{name} {below}")
