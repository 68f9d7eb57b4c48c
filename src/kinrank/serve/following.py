"""A served index that follows the store of its vectors, while it answers."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from kinrank.errors import KinrankError
from kinrank.search.searcher import Store
from kinrank.serve.service import Service
from kinrank.serve.work import Workers
from kinrank.stores.follow import Followed, changes_of_store

_log = logging.getLogger("kinrank.serve.following")


@dataclass(frozen=True, kw_only=True, eq=False)
class FollowedStore:
    """What is followed: a store, asked every so many seconds; see ``kinrank.follow``."""

    store: Store
    every: float
    changed_column: str | None = None


class Following:
    """A thread that looks at the store, and hands changes to the thread that makes them."""

    def __init__(self, service: Service, followed: FollowedStore, workers: Workers) -> None:
        self._service = service
        self._followed = followed
        self._workers = workers
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kinrank-follow", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End after the batch that is being made."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                done = self._look()
            except KinrankError as error:
                _log.warning("%s It is asked again in %g s.", error, self._followed.every)
            except Exception:  # noqa: BLE001  of a store of users: the next look may be better
                _log.exception("The store could not be followed.")
            else:
                if done.whole:
                    self._service.metrics.followed()
                if done.rows:
                    _log.info("%s; %s rows", done, f"{len(self._service.index):,}")
            self._stopping.wait(self._followed.every)

    def _look(self) -> Followed:
        """One look at the whole store."""
        total = Followed(whole=False)
        for change in changes_of_store(
            self._service.index,
            self._followed.store,
            changed_column=self._followed.changed_column,
            stop=self._stopping.is_set,
        ):
            if change.count.rows or change.note is not None:
                self._workers.write_alone(self._service.follow, change)
            total = total.followed_by(change.count)
        return total
