"""Metrics: how many requests a service answered and how long they took, as Prometheus reads them.

No label holds a user's name, a question or an answer. Requests are counted by the pattern of their address.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from pmw.service.hosting import Hosted

MEDIA = CONTENT_TYPE_PLAIN_0_0_4
disable_created_metrics()  # type: ignore[no-untyped-call]  # times of a start say nothing here


class Metrics:
    """What was counted since the process started."""

    def __init__(self) -> None:
        self._counted = CollectorRegistry()
        self._requests = Counter(
            "pmw_requests", "Requests answered.", ("method", "route", "status"), registry=self._counted
        )
        self._seconds = Histogram(
            "pmw_request_seconds", "Seconds for a request.", ("route",), registry=self._counted
        )
        self._refusals = Counter("pmw_refusals", "Requests refused.", ("code",), registry=self._counted)

    def count(self, line: Mapping[str, Any]) -> None:
        """Count a request by its line of the log."""
        route = line["route"] or "none"
        self._requests.labels(line["method"], route, str(line["status"] or "none")).inc()
        self._seconds.labels(route).observe(line["milliseconds"] / 1000)
        if line["code"] is not None:
            self._refusals.labels(line["code"]).inc()

    def text(self, sessions: Iterable[Hosted]) -> bytes:
        """Return the metrics, with those of some sessions, as a page for Prometheus."""
        now = CollectorRegistry()
        waiting = Gauge("pmw_waiting", "Requests that wait for a session.", ("session",), registry=now)
        spent = Gauge("pmw_budget_spent_ratio", "Spent part of a budget.", ("session",), registry=now)
        for hosted in sessions:
            waiting.labels(hosted.name).set(hosted.queue.waiting)
            spent.labels(hosted.name).set(hosted.session.state.ledger.share)
        return generate_latest(self._counted) + generate_latest(now)
