"""Counts and times of requests as Prometheus reads them."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping

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
        """How many requests have been answered."""
        with self._lock:
            return sum(self._requests.values())

    def begin(self) -> None:
        """A request has come in."""
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
        """So many vectors have been searched for."""
        with self._lock:
            self._queries += queries

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Everything in the text format. gauges : name -> what it is, and its value."""
        with self._lock:
            lines = self._counters() + self._histogram()
        for name, (words, value) in gauges.items():
            lines += [*_head(name, words, "gauge"), f"{name} {value:.17g}"]
        return "\n".join(lines) + "\n"

    def _counters(self) -> list[str]:
        name = "kinrank_requests_total"
        lines = _head(name, "Requests answered.", "counter")
        for (method, route, status), count in sorted(self._requests.items()):
            labels = _labels(method=method, route=route, status=status)
            lines.append(f"{name}{labels} {count}")
        name = "kinrank_queries_total"
        lines += [*_head(name, "Vectors searched for.", "counter"), f"{name} {self._queries}"]
        name = "kinrank_requests_running"
        words = "Requests being answered."
        return [*lines, *_head(name, words, "gauge"), f"{name} {self.running}"]

    def _histogram(self) -> list[str]:
        name = "kinrank_request_seconds"
        lines = _head(name, "Time to answer.", "histogram")
        for route, counts in sorted(self._buckets.items()):
            total = 0
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), counts, strict=True):
                total += count
                lines.append(f"{name}_bucket{_labels(route=route, le=bound)} {total}")
            lines.append(f"{name}_sum{_labels(route=route)} {self._seconds[route]:.6f}")
            lines.append(f"{name}_count{_labels(route=route)} {total}")
        return lines


def _head(name: str, words: str, kind: str) -> list[str]:
    return [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]


def _labels(**values: object) -> str:
    escaped = (str(value).replace("\\", r"\\").replace('"', r"\"") for value in values.values())
    return "{" + ",".join(f'{n}="{v}"' for n, v in zip(values, escaped, strict=True)) + "}"
