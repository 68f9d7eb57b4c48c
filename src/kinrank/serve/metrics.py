"""Counts and times of requests as Prometheus reads them."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """What has been asked since the start. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, str, int], int] = defaultdict(int)
        self._buckets: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS) + 1))
        self._seconds: dict[str, float] = defaultdict(float)
        self._queries = 0
        self.running = 0

    @property
    def answered(self) -> int:
        with self._lock:
            return sum(self._requests.values())

    def begin(self) -> None:
        with self._lock:
            self.running += 1

    def end(self, method: str, route: str, status: int, seconds: float) -> None:
        """It has been answered. route : a pattern such as /v1/items/{id}, never what was typed."""
        with self._lock:
            self.running -= 1
            self._requests[method, route, status] += 1
            self._buckets[route][bisect_left(BOUNDS, seconds)] += 1
            self._seconds[route] += seconds

    def searched(self, queries: int) -> None:
        with self._lock:
            self._queries += queries

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Everything in the text format. gauges : name -> what it is, and its value."""
        with self._lock:
            requests = [
                (_labels(method=method, route=route, status=status), count)
                for (method, route, status), count in sorted(self._requests.items())
            ]
            families: list[tuple[str, str, str, Iterable[tuple[str, object]]]] = [
                ("requests_total", "Requests answered.", "counter", requests),
                ("queries_total", "Vectors searched for.", "counter", [("", self._queries)]),
                ("requests_running", "Requests being answered.", "gauge", [("", self.running)]),
                ("request_seconds", "Time to answer.", "histogram", [*self._histogram()]),
            ]
        for name, (words, value) in gauges.items():
            families.append((name, words, "gauge", [("", f"{value:.17g}")]))
        lines = []
        for name, words, kind, samples in families:
            lines += [f"# HELP kinrank_{name} {words}", f"# TYPE kinrank_{name} {kind}"]
            lines += [f"kinrank_{name}{labels} {sample}" for labels, sample in samples]
        return "\n".join(lines) + "\n"

    def _histogram(self) -> Iterator[tuple[str, object]]:
        for route, counts in sorted(self._buckets.items()):
            bounds = zip((*map(str, BOUNDS), "+Inf"), accumulate(counts), strict=True)
            yield from ((f"_bucket{_labels(route=route, le=bound)}", n) for bound, n in bounds)
            yield f"_sum{_labels(route=route)}", f"{self._seconds[route]:.6f}"
            yield f"_count{_labels(route=route)}", sum(counts)


def _labels(**values: object) -> str:
    escaped = (str(value).replace("\\", r"\\").replace('"', r"\"") for value in values.values())
    return "{" + ",".join(f'{n}="{v}"' for n, v in zip(values, escaped, strict=True)) + "}"
