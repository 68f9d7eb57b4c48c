"""How kernels are compiled: the one place where numba is configured.

A kernel is serial, releases the GIL, works on a range of rows and is cached on disk. ``fastmath``
stays off, but for two named flags where a kernel asks for them: sums that may be regrouped so that
they vectorise (the order is then fixed by the compiled code, not by threads or blocks).

Compiling is what a first call waits for. A count that is handed to another kernel begins as
``np.int64(0)``: a plain 0 has a literal type of its own, for which that kernel would be compiled
once more. Rows are copied in loops: assigning slices brings numba's message about their shapes,
and its formatting of text takes seconds to compile. Python's way in takes as long to compile as a
small function, and counting who uses an array a quarter of it: so most functions have neither.
"""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, ClassVar, TypeAlias, cast

import llvmlite.binding as llvm
import numba
from numba.core import caching, config, event, types
from numba.core.runtime import rtsys

from kinrank.cache import cache_folder
from kinrank.errors import KinrankWarning

Function: TypeAlias = Callable[..., Any]

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def _flavour(**options: Any) -> Callable[[Function], Function]:
    return lambda function: _compiled(function, **options)


_DAMAGED = (EOFError, ValueError, pickle.UnpicklingError, AttributeError, IndexError)
# Processors that code is made for elsewhere, and what they have, best first.
_TARGETS = {
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    "x86-64-v3": ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
    "generic": (),
}
_NO_MEMORY = {"_nrt": False}
_NO_PYTHON = {"no_cpython_wrapper": True}
_REGROUP = {"fastmath": {"reassoc", "contract", "nsz"}}

kernel = _flavour()
"""Python calls it; it may make arrays."""

summing_kernel = _flavour(**_REGROUP)
"""As ``kernel``; its sums may be regrouped."""

filling = _flavour(**_NO_MEMORY)
"""Python calls it; it writes into the arrays that it is given, and makes none."""

summing = _flavour(**_NO_MEMORY, **_REGROUP)
"""As ``filling``; its sums may be regrouped."""

helper = _flavour(**_NO_PYTHON)
"""Kernels call it; it may make arrays and return them."""

inner = _flavour(**_NO_PYTHON, **_NO_MEMORY)
"""Kernels call it; it neither makes nor returns an array."""

inner_sum = _flavour(**_NO_PYTHON, **_NO_MEMORY, **_REGROUP)
"""As ``inner``; its sums may be regrouped."""


def _compiled(function: Function, **options: Any) -> Function:
    njit: Any = numba.njit
    compiled: Any = njit(**_OPTIONS, **options)(function)
    if compiled is not function:  # it is, where numba is told to leave Python alone
        compiled._cache = KernelCache(function)
    return cast("Function", compiled)


@cache
def kernel_folder() -> Path:
    """Where compiled kernels are kept: the folder changes with every source, and so with callees.

    ``NUMBA_CACHE_DIR`` is heeded where ``KINRANK_CACHE`` is not set.
    """
    numba_folder = None if os.environ.get("KINRANK_CACHE") else os.environ.get("NUMBA_CACHE_DIR")
    base = Path(numba_folder) / "kinrank" if numba_folder else cache_folder()
    return base / "kernels" / _contents()


@cache
def shipped_folder() -> Path:
    """Where kernels are that were compiled when the package was built; it may not be there."""
    return Path(__file__).parents[1] / "machine" / "kernels" / _contents()


@cache
def targets() -> tuple[str, ...]:
    """Which kinds of processors this one is one of, best first: it runs what was made for them.

    None of them where numba is told what to compile for, or where the package is being built.
    """
    if config.CPU_NAME or kernel_folder() == shipped_folder():
        return ()
    features = llvm.get_host_cpu_features()
    return tuple(name for name, needed in _TARGETS.items() if all(map(features.get, needed)))


@cache
def _contents() -> str:
    digest = "".join(map(_digest, sorted(Path(__file__).parent.glob("*.py"))))
    return hashlib.sha256(digest.encode()).hexdigest()[:16]


@cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class _Locator:
    """What numba asks of the place of a cache; one that cannot be written to can still be read."""

    def __init__(self, function: Function) -> None:
        self._code = function.__code__
        self._py_file = self._code.co_filename  # for numba's message that a kernel cannot be kept

    @classmethod
    def from_function(cls, function: Function, _file: str) -> _Locator:
        return cls(function)

    def get_cache_path(self) -> str:
        return str(kernel_folder())

    def get_source_stamp(self) -> str:
        return _digest(Path(self._code.co_filename))

    def get_disambiguator(self) -> str:
        return str(self._code.co_firstlineno)

    def ensure_cache_path(self) -> None:
        kernel_folder().mkdir(parents=True, exist_ok=True)


class _Entries(caching.CompileResultCacheImpl):
    _locator_classes: ClassVar[list[Any]] = [_Locator]


class KernelCache(caching.FunctionCache):
    """numba's cache in a place of ours; without a place, kernels are compiled in every process.

    What came with the package is looked for first, so that a kernel has the same code, and a result
    the same bits, whatever the user's cache holds.
    """

    _impl_class = _Entries

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._shipped = caching.IndexDataCacheFile(
            str(shipped_folder()), self._impl.filename_base, stamp
        )

    def holds(self, types: tuple[Any, ...], context: Any) -> bool:
        """Whether there is an entry for a signature."""
        for place, key in self._places(types, context.codegen()):
            with _unreadable_is_empty():
                if key in place._load_index():
                    return True
        return False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # Less than numba does: its modules for compiling take longer to import than code to load.
        rtsys.initialize(target_context)
        for place, key in self._places(sig, target_context.codegen()):
            with _unreadable_is_empty():
                reduced = place.load(key)
                if reduced is not None:
                    return self._impl.rebuild(target_context, reduced)
        return None

    def _places(self, types: Any, codegen: Any) -> Iterator[tuple[Any, Any]]:
        """Where the code of a signature may be, under which key."""
        types, native, code = self._index_key(types, codegen)
        if shipped_folder().is_dir():
            for target in (native, *((native[0], name, "") for name in targets())):
                yield self._shipped, (types, target, code)
        yield self._cache_file, (types, native, code)

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError:
            warn_unwritable()
        except _DAMAGED:  # a list that cannot be read begins anew
            self._cache_file.flush()
            super().save_overload(sig, data)


@contextmanager
def _unreadable_is_empty() -> Iterator[None]:
    """Damaged files of the cache, and those of others, are as good as none."""
    with suppress(OSError, *_DAMAGED):
        yield


def can_keep() -> bool:
    """Whether the cache can be written to; says once that it cannot."""
    try:
        kernel_folder().mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=kernel_folder()).close()
    except OSError:
        warn_unwritable()
        return False
    return True


@cache  # once
def warn_unwritable() -> None:
    """Say that nothing can be kept."""
    warnings.warn(
        f"Compiled kernels cannot be kept in {kernel_folder()}, so every process compiles them "
        "again. Set KINRANK_CACHE to a folder that can be written to.",
        KinrankWarning,
        stacklevel=2,
    )


_typed: dict[Any, Any] = {}
_functions: Any = types.functions.BaseFunction
_call_type = _functions.get_call_type


def _known_call_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """As numba types a call, but once for the same types.

    At every operator numba tries the implementations for texts, lists and sets before that for
    numbers: a tenth of the time. Implementations that are compiled for their callers are not kept.
    """
    if kws:
        return _call_type(function, context, args, kws)
    signature = _typed.get((function, args))
    if signature is None:
        signature = _call_type(function, context, args, kws)
        if function._impl_keys[signature.args] is function.typing_key:
            _typed[function, args] = signature
    else:
        function._impl_keys[signature.args] = function.typing_key
    return signature


class _Compiling(event.Listener):
    """While a kernel of ours is compiled, types are remembered and no garbage is collected.

    To collect it would take a sixth of the time.
    """

    def __init__(self) -> None:
        self._depth, self._collects = 0, False

    def on_start(self, begun: Any) -> None:
        if self._depth == 0:
            self._collects = gc.isenabled()
            gc.disable()
            if isinstance(getattr(begun.data["dispatcher"], "_cache", None), KernelCache):
                _functions.get_call_type = _known_call_type
        self._depth += 1

    def on_end(self, _event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            _functions.get_call_type = _call_type
            if self._collects:
                gc.enable()


event.register("numba:compile", _Compiling())  # holds numba's lock while it is told
