"""The page: one HTML file that needs nothing else, light or dark, wide or narrow."""

from __future__ import annotations

from html import escape
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from kinrank._version import __version__
from kinrank.demo import charts
from kinrank.demo.experiment import FIRST, Demo, DemoRows, Outcome

MARKS = {"right": "✓", "wrong": "✕", "new": "+", "kept": ""}
GROUPS = {
    "top": ("Wrong among the first ten, then right", "The largest gains in the first ten."),
    "gained": ("Gained most over the whole ranking", "The largest gains in average precision."),
    "typical": ("Typical", "The gains nearest to the median of all queries."),
    "lost": ("Lost", "Not every query gains: this one lost most."),
    "changed": ("Changed most", "The queries with most new results among the first ten."),
}
WORDS = {
    "mAP": ("mAP", "mean average precision: right answers early, over the whole ranking"),
    "R1": ("R1", "queries whose first result is right"),
    "mINP": ("mINP", "how early the very last right answer comes"),
}


def render(demo: Demo) -> str:
    """The page for ``demo``."""
    style = files("kinrank.demo").joinpath("style.css").read_text(encoding="utf-8")
    footer = (
        f"<footer>kinrank {escape(__version__)} · "
        f"made by <code>{escape(demo.subject.command)}</code> · "
        f"{escape(demo.subject.origin)}</footer>"
    )
    sections = [_header(demo), _figures(demo), _overview(demo), _legend(demo), *_groups(demo)]
    body = "\n".join([*sections, footer])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>kinrank: {escape(demo.subject.title)}, ranked twice</title>\n"
        f"<style>\n{style}</style>\n</head>\n"
        f'<body class="{demo.subject.kind}">\n<main>\n{body}\n</main>\n</body>\n</html>\n'
    )


def _header(demo: Demo) -> str:
    return (
        "<header><h1>Nearest neighbours, right the second time</h1>"
        f"<p>{len(demo.queries)} {escape(demo.subject.many)} each look for their own kind among "
        f"{len(demo.gallery):,} others. First by plain {escape(demo.before.name)} distance of "
        f"{escape(demo.subject.vectors)}, then re-ranked by <code>{escape(demo.call)}</code>: "
        "no labels, no training, only the neighbours of the neighbours.</p></header>"
    )


def _figures(demo: Demo) -> str:
    cards = []
    if not demo.judged:
        return ""
    after = demo.after.headline
    for name, first in demo.before.headline.items():
        title, meaning = WORDS[name]
        cards.append(
            f'<div class="card"><h2><abbr title="{meaning}">{title}</abbr></h2>'
            f'<p class="big"><span class="old">{first:.2f}</span>'
            f'<span class="arrow" aria-label="becomes">→</span><b>{after[name]:.2f}</b></p>'
            f'<p class="change">{_signed(demo.change[name])}</p><p class="note">{meaning}</p></div>'
        )
    return f'<section class="cards">{"".join(cards)}</section>'


def _overview(demo: Demo) -> str:
    if not demo.judged:
        return f'<section class="overview"><div>{_times(demo)}</div></section>'
    gained, lost = (demo.gains > 0).sum(), (demo.gains < 0).sum()
    numbers = range(len(demo.queries))
    names = [escape(f"Query {row}, {_one(demo, demo.queries, row)}") for row in numbers]
    return (
        '<section class="overview"><figure><h2>Every query</h2>'
        f"{charts.scatter(demo.before.ap.tolist(), demo.after.ap.tolist(), names)}"
        f"<figcaption>Average precision (AP), per cent. Above the line: gained ({gained} "
        f"queries, circles). Below: lost ({lost}, squares).</figcaption></figure>"
        f"<div>{_times(demo)}</div></section>"
    )


def _times(demo: Demo) -> str:
    stages = demo.after.seconds
    total, longest = sum(stages.values()), max(stages.values(), default=1) or 1
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{1000 * seconds:.1f} ms</td>'
        f'<td class="bar"><i style="width:{100 * seconds / longest:.1f}%"></i></td></tr>'
        for name, seconds in stages.items()
    )
    first = 1000 * sum(demo.before.seconds.values())
    prepared = "".join(
        f'<tr><th scope="row">{escape(name)}, before both</th><td>{seconds:.1f} s</td>'
        "<td></td></tr>"
        for name, seconds in demo.preparation.items()
    )
    return (
        "<h2>Time of each stage</h2>"
        f'<table class="times"><tbody>{rows}</tbody><tfoot><tr><th scope="row">'
        f"{escape(demo.after.name)}, in all</th><td>{1000 * total:.1f} ms</td><td></td></tr>"
        f'<tr><th scope="row">{escape(demo.before.name)} ranking</th><td>{first:.1f} ms</td>'
        f"<td></td></tr>{prepared}</tfoot></table>"
    )


def _legend(demo: Demo) -> str:
    if not demo.judged:
        return (
            '<section class="legend"><p><span class="key new">+ new</span></p><p>Each query shows '
            "its first ten results. Nobody said which are right: results that were not among the "
            "first ten before are marked.</p></section>"
        )
    return (
        '<section class="legend"><p><span class="key right">✓ right</span>'
        '<span class="key wrong">✕ wrong</span></p><p>Each query shows its first ten results. '
        "The bar beneath goes on to as many results as there are right answers, tall where right "
        "and low where wrong: a bar that is tall throughout is a perfect ranking.</p></section>"
    )


def _groups(demo: Demo) -> list[str]:
    examples = demo.examples()
    return [
        f"<section><h2>{title}</h2><p class='sub'>{text}</p>"
        f"{''.join(_query(demo, row) for row in examples[key])}</section>"
        for key, (title, text) in GROUPS.items()
        if examples.get(key)
    ]


def _query(demo: Demo, row: int) -> str:
    known = gain = ""
    if demo.judged:
        points = float(demo.gains[row])
        known = f"<br>{demo.subject.word} <b>{escape(demo.queries.label(row))}</b>"
        gain = f'<p class="gain {"up" if points >= 0 else "down"}">AP {_signed(points, 1)}</p>'
    return (
        f'<article class="query"><div class="asked">'
        f"{_image(demo, demo.queries, row, _one(demo, demo.queries, row))}"
        f"<p>query {row}{known}</p>{gain}</div>"
        f'<div class="answers">{_answers(demo, demo.before, "Before", row)}'
        f"{_answers(demo, demo.after, 'After', row)}</div></article>"
    )


def _answers(demo: Demo, outcome: Outcome, title: str, row: int) -> str:
    ranked = outcome.ranking.indices[row]
    first = [int(at) for at in ranked[:FIRST]]
    rest = ""
    if demo.judged:
        right = demo.right(outcome)[row]
        words = ["right" if ok else "wrong" for ok in right[:FIRST]]
        rest = _rest(right, outcome.ap[row])
    else:
        old = demo.before.ranking.indices[row, :FIRST]
        words = ["kept" if at in old else "new" for at in first]
    tiles = [_tile(demo, at, word) for at, word in zip(first, words, strict=True)]
    return (
        f'<div class="answer"><h3>{title} <span>{escape(outcome.name)}</span></h3>'
        f"<ol>{''.join(tiles)}</ol>{rest}</div>"
    )


def _rest(right: npt.NDArray[np.bool_], ap: float) -> str:
    """The ranking down to as many results as there are right ones."""
    total = int(right.sum())
    return (
        f'<div class="rest">{charts.strip(np.asarray(right[:total]))}'
        f"<p>{right[:total].sum()} of {total}</p><p>AP {ap:.1f}</p></div>"
    )


def _tile(demo: Demo, at: int, word: str) -> str:
    shown = f"{MARKS[word]} {escape(demo.gallery.label(at))}"
    text = f"{_one(demo, demo.gallery, at)}, {word}"
    return (
        f'<li class="{word}">{_image(demo, demo.gallery, at, text)}'
        f'<span aria-hidden="true">{shown}</span></li>'
    )


def _one(demo: Demo, part: DemoRows, row: int) -> str:
    """A picture in words."""
    return demo.subject.one.format(part.label(row) or row)


def _image(demo: Demo, part: DemoRows, row: int, text: str) -> str:
    side = demo.subject.side
    return (
        f'<div class="frame"><img src="{part.picture(row)}" alt="{escape(text)}" '
        f'width="{side}" height="{side}"></div>'
    )


def _signed(number: float, digits: int = 2) -> str:
    """With its sign; a number that is shown as zero has both."""
    text = f"{abs(number):.{digits}f}"
    if not float(text):
        return f"±{text}"
    return ("+" if number > 0 else "\N{MINUS SIGN}") + text
