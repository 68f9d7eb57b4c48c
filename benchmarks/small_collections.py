"""Small collections made from labelled sets, each with what is right in it.

Few or many classes of 1 to 50 images, single images mixed in; as they are, with noise, whitened,
on a few principal directions, or with a part that all rows have in common. One in ten is of
couples, and one in ten has one image of each class, so that nothing can confirm anything.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

import kinrank
from kinrank import datasets
from kinrank.metrics.protocols import reid, retrieval

SIZES = (300, 500, 800, 1200)
IMAGES = (1, 2, 3, 4, 6, 8, 12, 20, 30, 50)
SINGLES = (0, 0, 0.2, 0.5, 0.8)
KINDS = ("raw", "raw", "raw", "noise", "white", "pca", "common")
WIDTHS = (320, 320, 1280)  # columns, by turns; wider sets get as many principal directions
SETS = 9  # that take turns
MOST_QUERIES = 120
FEWEST_QUERIES = 40
KINDS_OF_COLLECTIONS = ("classes", "couples", "singles")


class Collection(NamedTuple):
    """Queries, gallery, and ``right(ranking)``: AP of every query."""

    about: dict
    queries: np.ndarray
    gallery: np.ndarray
    right: object


def unit(rows):
    """Rows over their norms."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(norms > 0, norms, 1)).astype(np.float32)


@cache
def _base(place, widest):
    data = datasets.load(place, unit=True)
    query, gallery = data.query.features, data.gallery.features
    if query.shape[1] > widest:
        _, turn = np.linalg.eigh(gallery.T @ gallery)
        query, gallery = (unit(rows @ turn[:, ::-1][:, :widest]) for rows in (query, gallery))
    return data, query, gallery


def make(place, seed):
    """A collection of a set, or None where it has too few queries."""
    random = np.random.default_rng(seed)
    size = int(random.choice(SIZES))
    data, query, gallery = _base(place, WIDTHS[seed // SETS % len(WIDTHS)])
    parts = _revisited if data.protocol == "revisited" else _classes
    collection = "classes"
    if data.protocol != "revisited" and seed % 10 in (3, 7):
        collection = "couples" if seed % 10 == 3 else "singles"
        parts = _couples if seed % 10 == 3 else _singles
    about, queries, rows, right = parts(data, query, gallery, size, random)
    if len(queries) < FEWEST_QUERIES or len(rows) < 100:
        return None
    kind = str(random.choice(KINDS))
    changed = _changed(np.vstack([rows, queries]), kind, random)
    about |= {"collection": collection, "kind": kind, "rows": len(rows), "seed": seed}
    return Collection(about, changed[len(rows) :], changed[: len(rows)], right)


def _revisited(data, query, gallery, size, random):
    """Some of what is right for the queries, among rows that are right for none."""
    entries = [np.concatenate([e["easy"], e["hard"]]).astype(int) for e in data.gnd]
    junk = np.concatenate([np.asarray(e["junk"], int) for e in data.gnd])
    right = np.unique(np.concatenate(entries))
    share = float(random.choice([0.02, 0.05, 0.1, 0.3, 0.6, 1.0]))
    kept = right[random.random(len(right)) < share]
    others = np.setdiff1d(np.arange(len(gallery)), np.concatenate([right, junk]))
    others = random.choice(others, min(len(others), max(size - len(kept), 100)), replace=False)
    rows = np.sort(np.concatenate([kept, others]))
    found = [np.flatnonzero(np.isin(rows, entry)) for entry in entries]
    asked = [at for at, entry in enumerate(found) if len(entry)]

    def aps(ranking):
        return [_ap(line, found[at]) for line, at in zip(ranking.indices, asked, strict=True)]

    return {"images": share}, query[asked], gallery[rows], aps


def _ap(line, right):
    places = np.flatnonzero(np.isin(line, right))
    return (np.arange(1, len(places) + 1) / (places + 1)).sum() / len(right)


def _classes(data, query, gallery, size, random):
    """Queries and gallery images of some classes, and single images of others."""
    rows = np.vstack([query, gallery])
    labels = np.concatenate([data.query.labels, data.gallery.labels]).astype(np.int64)
    alone = np.flatnonzero(labels <= 0) if data.protocol == "reid" else np.empty(0, int)
    labels[alone] = labels.max() + 1 + np.arange(len(alone))  # distractors are of no class
    cams = None
    if data.query.cams is not None:
        cams = np.concatenate([data.query.cams, data.gallery.cams])
    images, singles = int(random.choice(IMAGES)), float(random.choice(SINGLES))
    known, counts = np.unique(labels, return_counts=True)
    many = known[counts >= min(images + 1, np.sort(counts)[-3])]
    count = int(np.clip(size * (1 - singles) / (images + 1), 5, len(many)))
    count = max(5, count // 4) if random.random() < 0.25 else count
    chosen, asked, listed = random.permutation(many)[:count], [], []
    for label in chosen:
        own = random.permutation(np.flatnonzero(labels == label))
        part = own[: min(images, len(own) - 1)]
        more = own[len(part) :][: int(np.ceil(150 / count))]
        if cams is not None:
            more = [row for row in more if (cams[part] != cams[row]).any()]
        asked.extend(more)
        listed.extend(part)
    single = random.permutation(np.setdiff1d(known, chosen))[: int(singles * size)]
    listed.extend(random.choice(np.flatnonzero(labels == label)) for label in single)
    asked = np.array(asked, int)[random.permutation(len(asked))[:MOST_QUERIES]]
    listed = np.array(listed, int)

    def aps(ranking):
        if cams is None:
            return retrieval(ranking, labels[asked], labels[listed]).ap
        return reid(ranking, labels[asked], labels[listed], cams[asked], cams[listed]).ap

    return {"images": images, "singles": singles}, rows[asked], rows[listed], aps


def _of_classes(data, query, gallery, least, random):
    """All rows, and the numbers of those of each class that has ``least`` of them or more."""
    rows = np.vstack([query, gallery])
    labels = np.concatenate([data.query.labels, data.gallery.labels]).astype(np.int64)
    if data.protocol == "reid":
        labels[labels <= 0] = labels.max() + 1 + np.arange((labels <= 0).sum())
    order = random.permutation(len(rows))
    begins = np.unique(labels[order], return_inverse=True)[1]
    members = [order[begins == label] for label in random.permutation(begins.max() + 1)]
    return rows, [numbers for numbers in members if len(numbers) >= least]


def _couples(data, query, gallery, size, random):
    """Two images of each class; one of some couples asks."""
    rows, members = _of_classes(data, query, gallery, 2, random)
    couples = np.array([numbers[:2] for numbers in members[: size // 2]])
    asked = couples[:MOST_QUERIES, 0]
    listed = np.concatenate([couples[:, 1], couples[MOST_QUERIES:, 0]])
    return {}, rows[asked], rows[listed], _partner_first(len(asked))


def _singles(data, query, gallery, size, random):
    """One image of each class in the gallery; another image of some of these classes asks."""
    rows, members = _of_classes(data, query, gallery, 1, random)
    members = sorted(members[:size], key=len, reverse=True)
    asked = [numbers[1] for numbers in members if len(numbers) > 1][:FEWEST_QUERIES]
    listed = [numbers[0] for numbers in members]
    return {}, rows[asked], rows[listed], _partner_first(len(asked))


def _partner_first(count):
    """AP where the gallery row of the same number is right."""

    def aps(ranking):
        return [_ap(line, [row]) for row, line in zip(range(count), ranking.indices, strict=True)]

    return aps


def _changed(rows, kind, random):
    width = rows.shape[1]
    if kind == "noise":
        level = float(random.choice([0.3, 0.7, 1.2])) / np.sqrt(width)
        return unit(rows + level * random.standard_normal(rows.shape))
    if kind == "white":
        return kinrank.Projection.fit(rows, kind=float(random.choice([0.25, 0.5]))).apply(rows)
    if kind == "pca":
        centred = rows - rows.mean(axis=0)
        axes = np.linalg.svd(centred, full_matrices=False)[2][: int(random.choice([16, 32, 64]))]
        return unit(centred @ axes.T)
    if kind == "common":
        shared = random.choice([0.5, 1.0]) * unit(random.standard_normal((1, width)))
        return unit(rows + shared)
    return rows
