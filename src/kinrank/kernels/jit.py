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

import hashlib
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeAlias, cast

import llvmlite.binding as llvm
import numba
from numba.core import config

from kinrank.cache import (
    UntrustedError,
    cache_folder,
    make_entry_folder,
    read_entry,
    write_entry,
)
from kinrank.errors import KinrankWarning

Function: TypeAlias = Callable[..., Any]

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def _flavour(**options: Any) -> Callable[[Function], Function]:
    """A decorator that compiles a function with some of numba's options."""
    return lambda function: _compiled(function, **options)


# Processors that code is made for elsewhere, and what they have, best first.
_TARGETS = {
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    "x86-64-v3": ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
    "generic": (),
}
_NO_MEMORY = {"_nrt": False}  # no counts of references, and so no new arrays
_NO_PYTHON = {"no_cpython_wrapper": True}  # no way in for Python
_PUBLIC = ("nogil", "error_model", "fastmath")  # options of numba that its pages name
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
    """The function compiled when it is called, its code kept on disk where that is possible."""
    njit: Any = numba.njit
    compiled: Any = njit(**_known_options({**_OPTIONS, **options}))(function)
    # It is the function where numba is told to leave Python alone.
    if compiled is not function and keeps_code():
        compiled._cache = KernelCache(function)
    return cast("Function", compiled)


def _known_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options that this numba has; without the others it compiles for longer, to the same."""
    try:
        from numba.core.cpu import CPUTargetOptions
    except ImportError:
        return {name: value for name, value in options.items() if name in _PUBLIC}
    return {name: value for name, value in options.items() if hasattr(CPUTargetOptions, name)}


@cache
def keeps_code() -> bool:
    """Whether this numba has the names by which compiled code is kept and loaded.

    They are numba's own and may go. Each process compiles its kernels then, and a warning says so.
    """
    try:
        from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen
        from numba.core.compiler import CompileResult
        from numba.core.dispatcher import Dispatcher
        from numba.core.runtime import rtsys
        from numba.core.serialize import dumps  # noqa: F401 - it is there
    except ImportError as error:
        warn_unknown_numba(str(error))
        return False
    needed = (
        (CPUCodeLibrary, "has_dynamic_globals"),
        (JITCPUCodegen, "magic_tuple"),
        (CompileResult, "_rebuild"),
        (CompileResult, "_reduce"),
        (Dispatcher, "enable_caching"),
        (type(rtsys), "initialize"),
    )
    missing = [f"{owner.__name__}.{name}" for owner, name in needed if not hasattr(owner, name)]
    if missing:
        warn_unknown_numba(f"it has no {', '.join(missing)}")
    return not missing


@cache
def kernel_folder() -> Path:
    """Where this user's compiled kernels are kept: a folder named after the sources of all kernels.

    An edit of one gives another folder, since numba does not notice that a callee has changed.
    ``NUMBA_CACHE_DIR`` is heeded where ``KINRANK_CACHE`` is not set.
    """
    numba_folder = None if os.environ.get("KINRANK_CACHE") else os.environ.get("NUMBA_CACHE_DIR")
    base = Path(numba_folder) / "kinrank" if numba_folder else cache_folder()
    return base / "kernels" / _source_digest()


@cache
def shipped_folder() -> Path:
    """Where kernels are that were compiled when the package was built; it may not be there."""
    return Path(__file__).parents[1] / "machine" / "kernels" / _source_digest()


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
def _source_digest() -> str:
    """What the sources of all kernels are: 16 hexadecimal digits."""
    digest = "".join(map(_digest, sorted(Path(__file__).parent.glob("*.py"))))
    return hashlib.sha256(digest.encode()).hexdigest()[:16]


@cache
def _digest(path: Path) -> str:
    """A digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _trusted_as(folder: Path) -> Path | None:
    """A file: code in the folder is also trusted if it has the same owner as this file.

    This one for the folder that was installed with it; None for the user's cache, where code must
    be the user's own.
    """
    return Path(__file__) if folder == shipped_folder() else None


class KernelCache:
    """Compiled kernels on disk, a file for each signature; see ``kinrank.cache``.

    What came with the package is looked for first, so that a kernel has the same code, and a result
    the same bits, whatever the user's cache holds. What is missing, damaged or cannot be trusted is
    compiled.
    """

    def __init__(self, function: Function) -> None:
        if function.__closure__ is not None:
            raise TypeError(f"{function.__qualname__} must not depend on variables around it.")
        self._function = function

    @property
    def cache_path(self) -> str:
        """Where numba says that code is kept."""
        return str(kernel_folder())

    def flush(self) -> None:
        """Numba asks for it before it compiles again; nothing waits to be written."""

    def holds(self, types: tuple[Any, ...], context: Any) -> bool:
        """Whether there is code for a signature."""
        return any(True for _ in self._codes(types, context.codegen()))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function, or None."""
        from numba.core.compiler import CompileResult
        from numba.core.runtime import rtsys

        # Less than numba does: its modules for compiling take longer to import than code to load.
        rtsys.initialize(target_context)
        for code in self._codes(sig, target_context.codegen()):
            with suppress(Exception):  # whatever is wrong: it is compiled
                parts = pickle.loads(code)  # noqa: S301 - checked by ``read_entry``
                return CompileResult._rebuild(target_context, *parts)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write a compiled function to the user's folder; a warning where that fails.

        sig : its argument types; data : numba's result of compiling it
        """
        from numba.core.serialize import dumps

        if data.library.has_dynamic_globals:  # addresses of this process
            return
        name = self._file_name(sig, data.codegen.magic_tuple())
        try:
            write_entry(kernel_folder(), name, dumps(data._reduce()), _trusted_as(kernel_folder()))
        except UntrustedError as error:
            warn_untrusted(str(error))
        except OSError:
            warn_unwritable()

    def _codes(self, types: Any, codegen: Any) -> Iterator[bytes]:
        """The pickled code of a signature, from each place that has it: shipped, or of the user."""
        native = codegen.magic_tuple()
        places = [(shipped_folder(), native)]
        places += [(shipped_folder(), (native[0], name, "")) for name in targets()]
        places += [(kernel_folder(), native)]
        for folder, target in places:
            try:
                code = read_entry(folder, self._file_name(types, target), _trusted_as(folder))
            except UntrustedError as error:
                warn_untrusted(str(error))
            except OSError:
                continue
            else:
                if code is not None:
                    yield code

    def _file_name(self, types: Any, target: tuple[Any, ...]) -> str:
        """The name of the file with the code of a signature for a processor.

        types : the argument types of numba; target : name and features of the processor
        """
        source = self._function.__code__
        place = f"{Path(source.co_filename).stem}.{self._function.__name__}-{source.co_firstlineno}"
        key = (
            numba.__version__,
            sys.implementation.cache_tag,
            sys.abiflags if sys.platform != "win32" else "",
            _digest(Path(source.co_filename)),
            [str(kind) for kind in types],
            [str(part) for part in target],
        )
        return f"{place}.{hashlib.blake2b(repr(key).encode(), digest_size=12).hexdigest()}.kernel"


def can_keep() -> bool:
    """Whether the cache can be written to; says once that it cannot."""
    if not keeps_code():
        return False
    try:
        make_entry_folder(kernel_folder(), _trusted_as(kernel_folder()))
        TemporaryFile(dir=kernel_folder()).close()
    except UntrustedError as error:
        warn_untrusted(str(error))
        return False
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


@cache  # once
def warn_unknown_numba(reason: str) -> None:
    """Say that this numba gives no way to keep code."""
    warnings.warn(
        f"Compiled kernels cannot be kept with numba {numba.__version__} ({reason}), so every "
        "process compiles them again. Install another version of numba, or a newer kinrank.",
        KinrankWarning,
        stacklevel=2,
    )


@cache  # once for each reason
def warn_untrusted(reason: str) -> None:
    """Say that code on disk is not run."""
    warnings.warn(
        f"{reason} Compiled kernels that are kept there are not used, as they may be somebody "
        "else's. Remove the folder, or set KINRANK_CACHE to one of your own.",
        KinrankWarning,
        stacklevel=2,
    )
