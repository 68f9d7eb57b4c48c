"""Lists of parameters in docstrings as they are written: `name : what it is, and what it means`.

numpydoc takes what follows the colon for a type. Here it is a sentence, so the lists become
Markdown before mkdocstrings reads them. Parameters of methods that a docstring leaves out, and all
their defaults, come from the classes themselves.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from importlib import import_module
from typing import Any

import griffe

SECTION = re.compile(
    r"^(Parameters|Attributes)\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", re.MULTILINE | re.DOTALL
)
ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) : (.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


class ParameterLists(griffe.Extension):
    """Rewrites docstrings."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Every object with a docstring, once."""
        if obj.docstring is None:
            return
        fields, text = (options(obj) if obj.is_class else {}), obj.docstring.value
        if fields and not SECTION.search(text):
            before, examples, after = text.partition("\nExamples\n--------\n")
            text = f"{before}\n\nParameters\n----------\n{examples}{after}"
        obj.docstring.value = SECTION.sub(lambda match: as_list(match[1], match[2], fields), text)


def as_list(title: str, body: str, fields: dict[str, tuple[str, str]]) -> str:
    """A section as a Markdown list, and what only the fields of a method say."""
    lines, rest = [f"**{title}**", ""], dict(fields)
    for words, text in ENTRY.findall(textwrap.dedent(body)):
        names, said = words.split(", "), " ".join(text.split())
        values = [rest.pop(name)[1] for name in names if name in fields]
        lines.append(entry(names, said, values))
    lines += [entry([name], said, [default]) for name, (said, default) in rest.items()]
    return "\n".join([*lines, "", ""])


def entry(names: list[str], said: str, values: list[str]) -> str:
    """One line of the list."""
    default = f" Default: {', '.join(values)}." if values else ""
    end = "." if default and not said.endswith(".") else ""
    return f"- {', '.join(f'`{name}`' for name in names)}: {said}{end}{default}"


def options(obj: griffe.Object) -> dict[str, tuple[str, str]]:
    """Help and default of every parameter, if this is the class of a method."""
    if ".methods." not in obj.path:
        return {}
    cls = getattr(import_module(obj.module.path), obj.name, None)
    if not dataclasses.is_dataclass(cls):
        return {}
    return {
        field.name: (
            str(field.metadata.get("help", "")),
            "follows from the others" if field.default is None else f"`{field.default!r}`",
        )
        for field in dataclasses.fields(cls)
        if field.default is not dataclasses.MISSING
    }
