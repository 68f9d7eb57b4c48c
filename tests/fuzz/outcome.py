"""What a call may end in: a valid result, or a refusal of the library's own. All else fails."""

import traceback
import warnings
from pathlib import Path

import numpy as np

import kinrank
from kinrank import KinrankError, KinrankWarning

SOURCE = Path(kinrank.__file__).parent
_FOREIGN = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning)


class Failure(Exception):  # noqa: N818 - it is what is looked for
    """An outcome that must not be; ``kind`` is the same for failures of one cause."""

    def __init__(self, kind, detail):
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail = kind, str(detail).replace("\n", " ")


class Outcomes:
    """Calls made so far, and how they ended."""

    def __init__(self, verbose=False):
        self.calls = self.valid = self.refused = 0
        self.verbose = verbose

    def attempt(self, name, function, *args, check=None, refuse=None, **kwargs):
        """The result of a call, None where it was refused; raises Failure on anything else.

        check : called with the result; refuse : why the call must not be accepted
        """
        self.calls += 1

        def shown():
            return f"{name}({described(args, kwargs)})"

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = function(*args, **kwargs)
            except KinrankError as error:
                self._tell(shown, error)
                self.refused += 1
                result = error
            except Exception as error:
                kind = f"{type(error).__name__} in {place(error)}"
                raise Failure(kind, f"{shown()}: {error}") from error
        _refuse_warnings(shown, caught)
        if isinstance(result, KinrankError):
            return None
        if refuse:
            raise Failure(f"{name.partition('[')[0]} accepted {refuse}", shown())
        if check is not None:
            try:
                check(result)
            except Failure as failure:
                raise Failure(f"{name}: {failure.kind}", f"{shown()}: {failure.detail}") from None
        self._tell(shown, result)
        self.valid += 1
        return result

    def _tell(self, shown, result):
        if self.verbose:
            print(f"{shown()}\n    -> {_described(result)}")


def place(error):
    """The innermost function of the library that an exception passed through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(SOURCE)]
    if not ours:
        return "the harness"
    return f"{Path(ours[-1].filename).relative_to(SOURCE)}:{ours[-1].name}"


def _refuse_warnings(shown, caught):
    for warning in caught:
        if issubclass(warning.category, KinrankWarning):
            continue
        path = Path(warning.filename)
        ours = path.is_relative_to(SOURCE)
        if issubclass(warning.category, _FOREIGN) and not ours:
            continue
        where = f"{path.relative_to(SOURCE)}:{warning.lineno}" if ours else path.name
        text = str(warning.message)
        raise Failure(f"{warning.category.__name__} ({text[:50]}) in {where}", f"{shown()}: {text}")


def described(args, kwargs):
    """Arguments in a line."""
    shown = [_described(value) for value in args]
    return ", ".join(shown + [f"{name}={_described(value)}" for name, value in kwargs.items()])


def _described(value):
    try:
        if isinstance(value, np.ndarray) and value.size > 4:
            mask = " masked" if isinstance(value, np.ma.MaskedArray) else ""
            return f"<{type(value).__name__} {value.dtype} {value.shape}{mask}>"
        if isinstance(value, (list, tuple)) and len(value) > 4:
            return f"<{type(value).__name__} of {len(value)}, {_described(value[0])} first>"
        text = repr(value).replace("\n", " ")
    except Exception:  # noqa: BLE001 - the description of an odd object may fail in any way
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 100 else text[:97] + "..."


def require(holds, kind, detail=""):
    if not holds:
        raise Failure(kind, detail)


def check_ranking(ranking, n_gallery, n_queries=None, k=None, ids=None):
    """In range or -1, unique, ascending, no NaN, pads at the end, ids that fit."""
    require(isinstance(ranking, kinrank.Ranking), "no Ranking", repr(type(ranking)))
    indices, distances = ranking.indices, ranking.distances
    require(indices.dtype == np.int32 and distances.dtype == np.float32, "other dtypes")
    require(indices.shape == distances.shape and indices.ndim == 2, "shape", indices.shape)
    require(n_queries is None or len(indices) == n_queries, "number of queries", len(indices))
    require(k is None or indices.shape[1] == k, "number of results", f"{indices.shape[1]} for {k}")
    require(not np.isnan(distances).any(), "NaN distances")
    if indices.size:
        require(indices.min() >= -1 and indices.max() < n_gallery, "index out of range",
                f"{indices.min()} to {indices.max()} of {n_gallery}")  # fmt: skip
    real = indices >= 0
    require(not (real[:, 1:] & ~real[:, :-1]).any(), "a pad before a result")
    require(np.isposinf(distances[~real]).all(), "a pad that is not infinite")
    require(np.isfinite(distances[real]).all(), "an infinite distance of a result")
    require((distances[:, 1:] >= distances[:, :-1]).all(), "distances do not ascend")
    ordered = np.sort(indices, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    require(not twice.any(), "a row twice")
    check_names(ranking, ids)


def check_names(ranking, ids):
    """The ids of results, and none for pads."""
    require((ranking.ids is None) == (ids is None), "ids missing or too many")
    if ids is None:
        return
    require(ranking.ids.shape == ranking.indices.shape, "shape of ids", ranking.ids.shape)
    real = ranking.indices >= 0
    require((ranking.ids[real] == ids[ranking.indices[real]]).all(), "wrong ids")
    none = "" if ranking.ids.dtype.kind == "U" else -1
    require((ranking.ids[~real] == none).all(), "ids of pads", ranking.ids[~real][:3])


def check_finite(array, shape=None, low=None):
    """A dense result: of a shape, without NaN or infinity."""
    array = np.asarray(array)
    require(shape is None or array.shape == shape, "shape", f"{array.shape} for {shape}")
    require(np.isfinite(array).all(), "NaN or infinity in the result")
    require(low is None or array.size == 0 or array.min() >= low, "a negative result")


def check_graph(graph, n):
    """Distances in [0, 1]; each row ascends and begins with itself at 0."""
    require(graph.shape == (n, n), "shape", graph.shape)
    require(np.isfinite(graph.data).all(), "NaN or infinity in the graph")
    require(((graph.data >= 0) & (graph.data <= 1)).all(), "distances outside [0, 1]")
    for row in range(n):
        part = slice(graph.indptr[row], graph.indptr[row + 1])
        columns, values = graph.indices[part], graph.data[part]
        require(len(columns) > 0 and (columns == row).any(), "a row without itself")
        require(values[columns == row][0] == 0, "a row at a distance from itself")
        require((values[1:] >= values[:-1]).all(), "distances do not ascend")
        require(len(np.unique(columns)) == len(columns), "a row twice")
