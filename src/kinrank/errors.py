"""Everything kinrank raises.

KinrankError
├── InvalidInputError (ValueError)     bad data or a bad parameter
├── UnknownNameError (ValueError)      a name that is not in a registry
├── UnknownIdError (LookupError)       an id that no row of an index has
├── UnsupportedError (AttributeError)  what a method or an index cannot do
├── LockedError (RuntimeError)         somebody else is writing the index
├── StoreError (RuntimeError)          a store's engine that failed; its own error is the cause
├── ClusterError (RuntimeError)        other machines that cannot be reached or failed
├── FileFormatError (ValueError)       a file that is not what it should be
├── UnwritableError (PermissionError)  a place where nothing can be written
└── OptionalDependencyError (ImportError)

KinrankWarning (UserWarning)           the answer is right, but not quite what was asked for
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

_SHOWN = 80


def shown(value: object) -> str:
    """A value as messages tell it: on one line, and not without end."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001  whatever the user's object raises
        text = f"an object of the class {type(value).__name__}"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


class KinrankError(Exception):
    """Base of all errors that kinrank raises on purpose.

    Examples
    --------
    >>> import kinrank
    >>> try:
    ...     kinrank.CAS(k1=0)
    ... except kinrank.KinrankError as error:
    ...     print(error)
    `k1` must be an integer of at least 1, got 0.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # By default an error is unpickled by a call of its class with ``args``, which hold the
        # message alone: a class with other arguments would fail, and hang a pool of processes.
        return _restored, (type(self), self.args, self._attributes())

    def _attributes(self) -> dict[str, Any]:
        """What an error has beside its message."""
        return dict(self.__dict__)


def _restored(
    cls: type[KinrankError], args: tuple[Any, ...], attributes: Mapping[str, Any]
) -> KinrankError:
    """An error that was pickled, made without a call of its class."""
    error = cls.__new__(cls)
    error.args = args
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


class InvalidInputError(KinrankError, ValueError):
    """Data or a parameter that cannot be used; the message says what is allowed."""


class FileFormatError(KinrankError, ValueError):
    """A file that is broken, truncated or of another kind."""


class UnwritableError(KinrankError, PermissionError):
    """A place that cannot be written to; the message says what to choose or to set.

    ``errno``, ``strerror`` and ``filename`` are the system's, where it has refused.
    """

    def __init__(self, message: str, refusal: OSError | None = None) -> None:
        super().__init__(message)
        if refusal is not None:
            self.errno = refusal.errno
            self.strerror = refusal.strerror
            self.filename = refusal.filename

    def _attributes(self) -> dict[str, Any]:
        system = {"errno": self.errno, "strerror": self.strerror, "filename": self.filename}
        return {**super()._attributes(), **system}

    def __str__(self) -> str:
        return str(self.args[0])


class UnknownNameError(KinrankError, ValueError):
    """A name that is not registered; the message lists those that are."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        names = sorted(known)
        if not names:
            super().__init__(f"There is no `{kind}` to choose from, got {shown(name)}.")
            return
        near = get_close_matches(name, names, n=1) if isinstance(name, str) else []
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"`{kind}` must be one of {', '.join(names)}, got {shown(name)}.{hint}")


class UnknownIdError(KinrankError, LookupError):
    """An id that no row has."""


class UnsupportedError(KinrankError, AttributeError):
    """Something that another method or object can do; the message says which."""


class LockedError(KinrankError, RuntimeError):
    """An index that another process or object is writing."""


class StoreError(KinrankError, RuntimeError):
    """An engine or a database that failed; ``__cause__`` is what it raised."""


class ClusterError(KinrankError, RuntimeError):
    """A cluster that cannot be reached, or work on it that cannot be finished."""


class OptionalDependencyError(KinrankError, ImportError):
    """A package of an extra that is not installed; the message names the extra."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed. "
            f"Install it with: pip install 'kinrank[{extra}]'"
        )


class KinrankWarning(UserWarning):
    """The work went on, but not quite as asked; the message says what was changed."""
