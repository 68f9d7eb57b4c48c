"""What a page is about, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The words of a page.

    Attributes
    ----------
    title, many, vectors : what is ranked, many of it, and what is compared
    one : one picture in words, with {} for its class
    word : what a class is called
    origin, command : where the pictures come from, and how the page was made
    kind : how pictures are drawn: a few large pixels, or photos
    side : pixels of a picture
    """

    title: str
    many: str
    vectors: str
    one: str
    word: str
    origin: str
    command: str
    kind: Literal["pixels", "photos"]
    side: int


DIGITS = Subject(
    title="digits",
    many="handwritten digits",
    vectors="the pixels",
    one="a handwritten {}",
    word="digit",
    origin="handwritten digits of scikit-learn (UCI Optical Recognition of Handwritten Digits)",
    command="kinrank demo",
    kind="pixels",
    side=8,
)
