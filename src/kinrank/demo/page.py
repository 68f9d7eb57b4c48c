"""The page: one HTML file that needs nothing else, light or dark, wide or narrow."""

from __future__ import annotations

from html import escape
from importlib.resources import files

import numpy as np

import kinrank
from kinrank.demo import charts
from kinrank.demo.experiment import FIRST, Demo, Outcome, Part
from kinrank.demo.png import data_uri

GROUPS = {
    "top": ("Wrong among the first ten, then right", "The largest gains in the first ten."),
    "gained": ("Gained most over the whole ranking", "The largest gains in average precision."),
    "typical": ("Typical", "The gains nearest to the median of all queries."),
    "lost": ("Lost", "Not every query gains: this one lost most."),
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
        f"<footer>kinrank {escape(kinrank.__version__)} · made by <code>kinrank demo</code> · "
        "handwritten digits of scikit-learn (UCI Optical Recognition of Handwritten Digits)"
        "</footer>"
    )
    sections = [_header(demo), _figures(demo), _overview(demo), _legend(), *_groups(demo), footer]
    body = "\n".join(sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>kinrank: digits, ranked twice</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _header(demo: Demo) -> str:
    return (
        "<header><h1>Nearest neighbours, right the second time</h1>"
        f"<p>{len(demo.queries)} handwritten digits each look for their own kind among "
        f"{len(demo.gallery):,} others. First by plain {escape(demo.before.name)} distance of "
        f"the pixels, then re-ranked by <code>{escape(demo.call)}</code>: no labels, no training, "
        "only the neighbours of the neighbours.</p></header>"
    )


def _figures(demo: Demo) -> str:
    cards = []
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
    gained, lost = (demo.gains > 0).sum(), (demo.gains < 0).sum()
    names = [f"Query {row}, a {label}" for row, label in enumerate(demo.queries.labels)]
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
    return (
        "<h2>Time of each stage</h2>"
        f'<table class="times"><tbody>{rows}</tbody><tfoot><tr><th scope="row">'
        f"{escape(demo.after.name)}, in all</th><td>{1000 * total:.1f} ms</td><td></td></tr>"
        f'<tr><th scope="row">{escape(demo.before.name)} ranking</th><td>{first:.1f} ms</td>'
        "<td></td></tr></tfoot></table>"
    )


def _legend() -> str:
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
        if examples[key]
    ]


def _query(demo: Demo, row: int) -> str:
    label = int(demo.queries.labels[row])
    gain = float(demo.gains[row])
    return (
        f'<article class="query"><div class="asked">'
        f"{_image(demo.queries, row, f'a handwritten {label}')}"
        f"<p>query {row}<br>digit <b>{label}</b></p>"
        f'<p class="gain {"up" if gain >= 0 else "down"}">AP {_signed(gain, 1)}</p></div>'
        f'<div class="answers">{_answers(demo, demo.before, "Before", row)}'
        f"{_answers(demo, demo.after, 'After', row)}</div></article>"
    )


def _answers(demo: Demo, outcome: Outcome, title: str, row: int) -> str:
    wanted = demo.queries.labels[row]
    ranked = outcome.ranking.indices[row]
    right = demo.gallery.labels[ranked] == wanted
    total = int((demo.gallery.labels == wanted).sum())
    tiles = [_tile(demo, int(ranked[place]), bool(right[place])) for place in range(FIRST)]
    return (
        f'<div class="answer"><h3>{title} <span>{escape(outcome.name)}</span></h3>'
        f'<ol>{"".join(tiles)}</ol><div class="rest">{charts.strip(np.asarray(right[:total]))}'
        f"<p>{right[:total].sum()} of {total}</p>"
        f"<p>AP {outcome.ap[row]:.1f}</p></div></div>"
    )


def _tile(demo: Demo, at: int, ok: bool) -> str:
    label = int(demo.gallery.labels[at])
    word, mark = ("right", "✓") if ok else ("wrong", "✕")
    return (
        f'<li class="{word}">{_image(demo.gallery, at, f"a {label}, {word}")}'
        f'<span aria-hidden="true">{mark} {label}</span></li>'
    )


def _image(part: Part, row: int, text: str) -> str:
    uri = data_uri(part.image(row))
    return f'<div class="frame"><img src="{uri}" alt="{text}" width="8" height="8"></div>'


def _signed(number: float, digits: int = 2) -> str:
    """With its sign; a number that is shown as zero has both."""
    text = f"{abs(number):.{digits}f}"
    if not float(text):
        return f"±{text}"
    return ("+" if number > 0 else "\N{MINUS SIGN}") + text
