"""Parameters of methods: in range, at the ends, out of range, and of wrong types."""

from dataclasses import fields
from functools import cache
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np

from fuzz.values import ODD_NUMBERS

NUMBERS = (0.0, 1e-300, 1e-30, 1e-12, 1e-6, 1e-3, 0.1, 0.3, 0.5, 0.9, 0.99, 1.0, 1.5, 2.0, 3.0,
           10.0, 1e3, 1e6, 1e30, 1e300)  # fmt: skip
WORDS = ("", "CAS", "none", "cosine ", "authors\0", "é")
# Parameters that make work: their values stay small, so that a call stays cheap.
HEAVY = {"steps": 30, "epochs": 2, "truncation": 200, "batch": 64, "p": 200, "pool": 60}


@cache
def _parameters(cls):
    hints = get_type_hints(cls)
    return [(field.name, hints[field.name]) for field in fields(cls)]


def options(draw, cls, n, odd=0.08):
    """Some parameters of a method for about ``n`` rows."""
    known = _parameters(cls)
    chosen = {}
    for name, hint in known:
        if name in {"weights", "device"}:
            continue
        likely = 0.6 if name in {"k1", "k2", "kqe", "m"} else min(0.12, 2.0 / len(known))
        if draw.chance(likely):
            chosen[name] = _odd(draw) if draw.chance(odd) else _value(draw, name, hint, n)
    return chosen


def _odd(draw):
    return draw.pick(WORDS) if draw.chance(0.2) else draw.pick(ODD_NUMBERS)


def _value(draw, name, hint, n):
    """A value that the parameter's type allows."""
    if name == "regularizer":
        return _regularizer(draw, n)
    if name == "whiten":
        return draw.pick((None, 0, 0.1, 0.25, 0.5, draw.pick(NUMBERS)))
    kinds = _flat(hint)
    kind = draw.pick(kinds)
    if isinstance(kind, (str, type(None))):
        return kind
    if kind is bool:
        return draw.chance(0.5)
    if kind is float:
        return draw.pick(NUMBERS)
    high = HEAVY.get(name, max(n, 2))
    return draw.size(1, max(high // 4, 2) if draw.chance(0.8) else 2 * high)


def _flat(hint):
    """The values and types that an annotation names."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    if get_args(hint):
        return [kind for part in get_args(hint) for kind in _flat(part)]
    return [None if hint is type(None) else hint]


def _regularizer(draw, n):
    from scipy.sparse import coo_array, csr_array, diags_array, eye_array

    near = eye_array(n, format="csr") * 2 + diags_array([1.0] * (n - 1), offsets=1, shape=(n, n))
    bad = coo_array(([1.0, np.nan], ([0, 0], [0, n - 1])), shape=(n, n))
    return draw.pick((
        "identity", "graph", eye_array(n, format="csr"), (near + near.T).tocsr(), near, bad,
        csr_array((n, n)), csr_array((n + 1, n)), eye_array(n, format="csr") * 1e300,
        eye_array(n, format="csr") * 1e-300, np.eye(n), eye_array(n, dtype=complex), "other", None,
    ))  # fmt: skip
