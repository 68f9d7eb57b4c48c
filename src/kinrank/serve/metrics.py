"""Counts and times of requests as Prometheus reads them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """What has been asked since the start. Safe to use from several threads.

    Each service has a registry of its own, so that two in one process do not mix their counts.
    """

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self._requests = Counter(
            "kinrank_requests_total",
            "Requests answered.",
            ["method", "route", "status"],
            registry=registry,
        )
        self._queries = Counter("kinrank_queries_total", "Vectors searched for.", registry=registry)
        self._running = Gauge(
            "kinrank_requests_running", "Requests being answered.", registry=registry
        )
        self._seconds = Histogram(
            "kinrank_request_seconds",
            "Time to answer.",
            ["route"],
            buckets=BOUNDS,
            registry=registry,
        )
        self._rows = Gauge("kinrank_index_rows", "Rows of the index.", registry=registry)
        self._columns = Gauge("kinrank_index_columns", "Columns of a vector.", registry=registry)
        self._bytes = Gauge("kinrank_index_bytes", "Bytes of the index.", registry=registry)
        self._followed = Gauge(
            "kinrank_followed_timestamp_seconds",
            "When the index was last what its store has; 0 for never.",
            registry=registry,
        )

    @property
    def answered(self) -> int:
        """How many requests have been answered."""
        samples = [sample for metric in self._requests.collect() for sample in metric.samples]
        return int(sum(sample.value for sample in samples if sample.name.endswith("_total")))

    def begin(self) -> None:
        """A request has come."""
        self._running.inc()

    def end(self, method: str, route: str, status: int, seconds: float) -> None:
        """It has been answered. route : a pattern such as /v1/items/{id}, never what was typed."""
        self._running.dec()
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def searched(self, queries: int) -> None:
        """So many vectors are searched for."""
        self._queries.inc(queries)

    def followed(self) -> None:
        """The index is what its store has."""
        self._followed.set_to_current_time()

    def text(self, *, rows: int, columns: int, index_bytes: int) -> bytes:
        """Everything in Prometheus' text format, with the size of the index as it is now."""
        self._rows.set(rows)
        self._columns.set(columns)
        self._bytes.set(index_bytes)
        return generate_latest(self._registry)
