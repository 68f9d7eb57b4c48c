"""Odd arrays, numbers and names: what one seed draws, and whether it must be refused."""

import os
import shutil
import warnings
from pathlib import Path

import numpy as np

# Kernels without numba are thousands of times slower: that variant draws small arrays only.
SMALL = os.environ.get("KINRANK_FUZZ_SMALL") == "1"
SCALES = (1e300, 3e38, 1e38, 1e20, 1e19, 1e9, 1e-9, 1e-19, 1e-20, 1e-30, 1e-40, 1e-300, 5e-324)
POISON = (np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e38, 1e-38, 1e-45, -0.0)
DTYPES = (
    "float16", "float64", "float64", "longdouble", ">f4", ">f8", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64", "bool", "complex64", "object", "U8", "S8", "<M8[s]",
)  # fmt: skip
ODD_NUMBERS = (
    0, -1, None, True, False, 2.5, 3.0, "3", "", np.int64(3), np.uint8(3), np.float32(3), np.nan,
    np.inf, -np.inf, 1e-30, 1e30, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**30, -(2**63), [3], (3,),
    {}, 3j, b"3", np.array(3), np.array([3]), np.array([3, 4]), object(), np.str_("3"), print,
)  # fmt: skip


class Draw:
    """The random choices of one seed."""

    def __init__(self, seed, folder, kind=0):
        self.rng = np.random.default_rng([kind, seed] if kind else seed)
        self.folder = Path(folder)  # for all seeds of a process
        self.refuse = None  # why what was drawn must not be accepted
        self._own = self.folder / f"seed {seed}"

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, choices):
        return choices[int(self.rng.integers(len(choices)))]

    def size(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def file(self, name):
        """A path in a folder of this seed's own."""
        self._own.mkdir(exist_ok=True)
        return self._own / name

    def clear(self):
        """Remove what was written."""
        if self._own.exists():
            shutil.rmtree(self._own)

    def rows_count(self):
        """How many rows: mostly few, sometimes next to none, rarely hundreds."""
        p = self.rng.random()
        if p < 0.08:
            return self.size(1, 3)
        if p < 0.98 or SMALL:
            return self.size(4, 20 if SMALL else 60)
        return self.size(61, 300)

    def width(self):
        return self.pick((1, 2, 3, 4, 6, 8, 8, 8, 16, 65))


def _clusters(rng, n, d):
    centres = rng.normal(size=(1 + n // 8, d))
    return centres[rng.integers(0, len(centres), n)] + 0.3 * rng.normal(size=(n, d))


PATTERNS = (
    _clusters, _clusters, _clusters,
    lambda rng, n, d: rng.normal(size=(n, d)),
    lambda rng, n, d: rng.normal(size=(n, d)),
    lambda rng, n, d: rng.normal(size=(1 + n // 4, d))[rng.integers(0, 1 + n // 4, n)],
    lambda rng, n, d: np.tile(rng.normal(size=(1, d)), (n, 1)),
    lambda rng, n, d: rng.integers(-2, 3, (n, d)).astype(float),
    lambda rng, n, d: np.arange(n)[:, None] * np.ones(d),
    lambda rng, n, d: 1e4 + rng.normal(size=(n, d)),
    lambda rng, n, d: rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.2),
    lambda rng, n, d: rng.random((n, d)) + 0.01,
    lambda rng, n, d: np.zeros((n, d)),
)  # fmt: skip


def plain_rows(draw, n, d):
    """Finite rows of some pattern, float64."""
    return draw.pick(PATTERNS)(draw.rng, n, d)


def vectors(draw, n, d, odd=0.12):
    """Rows as a user might bring them; each kind of oddness with the probability ``odd``."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        values = plain_rows(draw, n, d)
        if draw.chance(odd):
            values = values * draw.pick(SCALES)
        if draw.chance(odd / 2):  # one row unlike the others
            values[draw.size(0, n - 1)] *= draw.pick((0.0, *SCALES))
        values = values.astype(draw.pick(DTYPES) if draw.chance(odd) else np.float32)
        if draw.chance(odd / 2) and values.dtype.kind == "f":
            values[draw.size(0, n - 1), draw.size(0, d - 1)] = draw.pick(POISON)
        if draw.chance(odd / 2):
            values = shaped(draw, values)
        floats = isinstance(values, np.ndarray) and values.dtype.kind == "f"
        if floats and not np.isfinite(values.astype(np.float64)).all():
            draw.refuse = "NaN or infinity"
        if draw.chance(odd) and isinstance(values, np.ndarray):
            values = wrapped(draw, values)
    return values


def shaped(draw, values):
    """Another shape, or no array at all."""
    n = len(values)
    ragged = [list(range(1 + i % 3)) for i in range(n)]
    return draw.pick((
        values.ravel(), values[None], values[:, None], values[:0], values[:, :0], values[:1],
        values[:, :1], values.T, values[0, 0], values[..., None][None], None, "text", {}, 7, [],
        [[]], [[], []], ragged, [None] * n, object(), values.ravel()[:0],
    ))  # fmt: skip


class OnlyArray:
    """An object that has nothing but ``__array__``."""

    def __init__(self, values):
        self._values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self._values, dtype)


class Sub(np.ndarray):
    """A subclass that keeps its type."""


def wrapped(draw, values):
    """The same values in another layout or container, where they can be brought into it."""
    flat, plain = values.ndim == 2, values.dtype.kind in "fiub" and values.dtype.isnative
    kinds = [
        lambda: np.asfortranarray(values), lambda: values[::-1] if values.ndim else values,
        values.tolist, lambda: OnlyArray(values), lambda: values.view(Sub),
        lambda: np.ma.masked_array(values), lambda: _tensor(draw, values), lambda: _locked(values),
    ]  # fmt: skip
    if flat:
        kinds += [
            lambda: np.repeat(np.repeat(values, 2, axis=0), 3, axis=1)[::2, ::-3],
            lambda: list(values), lambda: tuple(map(tuple, values)), lambda: np.matrix(values),
            lambda: (row for row in values),
        ]  # fmt: skip
    if values.size and values.dtype != object:
        kinds += [lambda: _mapped(draw, values), lambda: _unaligned(values)]
    if flat and values.size:
        kinds += [lambda: _masked(draw, values)]
    if flat and plain and values.size and values.dtype != np.longdouble:
        kinds += [lambda: memoryview(values), lambda: _sparse(values)]
    return draw.pick(kinds)()


def _locked(values):
    values.flags.writeable = False
    return values


def _mapped(draw, values):
    path = draw.file(f"{draw.size(0, 10**9)}.npy")
    np.save(path, values)
    return np.load(path, mmap_mode="r")


def _unaligned(values):
    raw = np.frombuffer(b"\0" + values.tobytes(), np.uint8)[1:]
    return raw.view(values.dtype).reshape(values.shape)


def _masked(draw, values):
    masked = np.ma.masked_array(values)
    masked[draw.size(0, len(values) - 1), 0] = np.ma.masked
    draw.refuse = "a masked value"
    return masked


def _sparse(values):
    from scipy.sparse import csr_array

    return csr_array(values.astype(np.float32))


def _tensor(draw, values):
    if SMALL or values.dtype.kind not in "fiub" or values.dtype.itemsize > 8:
        return values
    import torch

    try:
        tensor = torch.from_numpy(np.ascontiguousarray(values, values.dtype.newbyteorder("=")))
    except (TypeError, ValueError):
        return values
    kind = draw.pick(("plain", "bfloat16", "gradient", "sparse"))
    if kind == "bfloat16" and tensor.is_floating_point():
        tensor = tensor.to(torch.bfloat16)
        if not torch.isfinite(tensor).all():
            draw.refuse = "NaN or infinity"
    if kind == "gradient" and tensor.is_floating_point():
        return tensor.requires_grad_()
    sparse = kind == "sparse" and tensor.ndim == 2 and values.dtype.kind != "u"
    return tensor.to_sparse() if sparse else tensor


def count(draw, high, odd=0.1):
    """A number of results, rows or steps: between 1 and ``high``, above it, or odd."""
    if draw.chance(odd):
        return draw.pick(ODD_NUMBERS)
    return draw.size(1, max(high + 3, 1)) if draw.chance(0.3) else draw.size(1, max(high, 1))


def threads(draw):
    if draw.chance(0.02):
        value = draw.pick(ODD_NUMBERS)
        return 2 if isinstance(value, int) and value > 8 else value
    return draw.pick((*[1] * 15, 2, 3, None))  # more take longer where rows are few


def ids(draw, n, odd=0.15):
    """Names of ``n`` rows."""
    numbers = draw.rng.permutation(10 * n + 1)[:n]
    if not draw.chance(odd):
        text = [f"row {number}" for number in numbers]
        return draw.pick((None, numbers, numbers.tolist(), -numbers, text, np.array(text)))
    top = np.iinfo(np.int64).max
    return draw.pick((
        numbers + 0.5, numbers.astype(float), numbers.astype(bool), numbers[:-1], [*numbers, 1],
        np.zeros(n, int), numbers[None], numbers.astype(np.uint64) + 2**63, top - np.arange(n),
        [top - i for i in range(n)], np.arange(n) - top, [10**30 + i for i in range(n)],
        ["a", *range(n - 1)], [[i] * (1 + i % 3) for i in range(n)], [None] * n, "text" * n,
        [f"row {i}".encode() for i in range(n)], {f"{i}" for i in range(n)}, (i for i in range(n)),
        [chr(0x1F600 + i) for i in range(n)], [f"a\0{i}" for i in range(n)],
        [f"{i}" + "\0" for i in range(n)], ["" if i == 0 else f"{i}" for i in range(n)],
        [f"{i}" * 300 for i in range(n)], np.array([f"{i}" for i in range(n)], object),
        np.array([*range(n)], object), np.ma.masked_array(numbers, numbers > n), {}, 7,
        [{"a": 1}] * n, [np.str_(i) for i in range(n)], [np.int8(i % 100) for i in range(n)],
        [True, *range(n - 1)], np.arange(n).astype("datetime64[s]"), [(i, i) for i in range(n)],
        ["\ud800" + str(i) for i in range(n)],
    ))  # fmt: skip


def labels(draw, n):
    """Classes of rows, in a form that an evaluation might be given."""
    numbers = draw.rng.integers(-1, 5, n)
    if not draw.chance(0.2):
        return draw.pick((numbers, numbers.tolist(), numbers.astype(str)))
    return draw.pick((
        numbers.astype(float), numbers[:-1], numbers[None], None, "text", [None] * n, numbers * 1j,
        numbers.astype(object), [*numbers[:-1], "a"], [[1]] * n, np.full(n, np.nan), [], {}, 7,
        numbers.astype(np.uint64), np.ma.masked_array(numbers, numbers == 0), [b"a"] * n,
    ))  # fmt: skip


def distances(draw, n, d):
    """Distances between all rows, squared; symmetric, zero on the diagonal."""
    rows = plain_rows(draw, n, d)
    return ((rows[:, None] - rows) ** 2).sum(axis=2)
