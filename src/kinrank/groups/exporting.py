"""Groups as files: a table, and a folder of links for each group."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from kinrank.errors import InvalidInputError, shown
from kinrank.io import PathLike, write_text_atomic, writing
from kinrank.validation import check_path

if TYPE_CHECKING:
    from kinrank.groups.groups import Groups

COLUMNS = ("id", "group", "name", "size", "single", "confirmed")
SINGLE = "single items"  # the folder of rows without a group
NO_NAME = re.compile(r"[^\w .,()-]+")  # what a folder is not called on every system


def save(groups: Groups, path: PathLike) -> None:
    """See ``Groups.save``."""
    file = Path(check_path("path", path))
    if file.suffix not in (".csv", ".json"):
        raise InvalidInputError(f"`path` must end in .csv or .json, got {shown(str(file))}.")
    write_text_atomic(file, as_json(groups) if file.suffix == ".json" else as_csv(groups))


def as_csv(groups: Groups) -> str:
    """A line for each row, after one with the names of the columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(groups.to_records())
    return text.getvalue()


def as_json(groups: Groups) -> str:
    """A list with an object for each row."""
    return json.dumps(groups.to_records(), indent=1, ensure_ascii=False) + "\n"


def link_files(groups: Groups, files: PathLike, folder: PathLike) -> int:
    """See ``Groups.link_files``."""
    source = Path(check_path("files", files)).resolve()
    target = Path(check_path("folder", folder))
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidInputError(
            f"`folder` must be new or empty, so that nothing in it is lost, got {str(target)!r}."
        )
    places = [source / str(value) for value in groups.ids.tolist()]
    for place, value in zip(places, groups.ids.tolist(), strict=True):
        if not place.is_file():
            raise InvalidInputError(
                f"The ids must be names of files below {str(source)!r}, got {shown(value)}."
            )
    singles = set(groups.singles.tolist())
    width = len(str(len(groups) - len(singles)))
    made: set[Path] = set()
    for row, place in enumerate(places):
        number = int(groups.labels[row])
        called = NO_NAME.sub("_", groups.names.get(number, "")).strip(" .")
        named = f"{number:0{width}d} {called}".strip()
        inside = target / (SINGLE if row in singles else named)
        with writing(inside):
            inside.mkdir(parents=True, exist_ok=True)
        _link(place, _free_name(inside / place.name, made))
    return len(places)


def _free_name(link: Path, made: set[Path]) -> Path:
    """The same name, with a number if another file of this group has it."""
    free = link
    count = 1
    while free in made:
        count += 1
        free = link.with_name(f"{link.stem} {count}{link.suffix}")
    made.add(free)
    return free


def _link(place: Path, link: Path) -> None:
    relative = os.path.relpath(place, link.parent.resolve())
    try:
        link.symlink_to(relative)
    except (OSError, NotImplementedError):
        # Windows lets few users make symbolic links; a hard link is the same file, on one disk.
        with writing(link):
            os.link(place, link)
