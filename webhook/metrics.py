"""What the webhook counts. All labels have a closed set of values."""

from collections.abc import Callable
from functools import cache
from typing import Final

import prometheus_client as prometheus

from webhook.admission import Answer
from webhook.findings import Code
from webhook.templates import PATHS

prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # they double every series, and nobody asks when a counter began

OTHER = "other"
_KINDS: Final = frozenset(kind for _, kind in PATHS)
_OPERATIONS: Final = frozenset({"CREATE", "UPDATE"})
_SECONDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5)


class Metrics:
    """The instruments of one process, on a registry of their own.

    `end` tells when the certificate that is being served ends, in seconds since 1970.
    """

    def __init__(self, end: Callable[[], float] = lambda: 0.0) -> None:
        self.registry = registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=registry)
        labels = ("operation", "kind", "verdict", "dry_run")
        reviews = prometheus.Counter(
            "milligpu_webhook_reviews", "Admission reviews answered.", labels, registry=registry
        )
        self._reviews = cache(reviews.labels)  # the labels' set is closed, and small
        self._seconds = prometheus.Histogram(
            "milligpu_webhook_review_seconds",
            "Time from a review's last byte to its answer.",
            buckets=_SECONDS,
            registry=registry,
        )
        findings = prometheus.Counter(
            "milligpu_webhook_findings",
            "What was said to people about their objects; an error is why one was denied.",
            ("code", "level"),
            registry=registry,
        )
        # All of them, so that what has not happened yet is 0, and an alert sees the first.
        self._findings = {code: findings.labels(code.label, code.level) for code in Code}
        self._errors = prometheus.Counter(
            "milligpu_webhook_errors",
            "Requests that got no review back, by HTTP status; 500 is a bug of ours.",
            ("status",),
            registry=registry,
        )
        prometheus.Gauge(
            "milligpu_webhook_certificate_not_after_timestamp_seconds",
            "When the certificate that is being served ends, in seconds since 1970.",
            registry=registry,
        ).set_function(end)

    def reviewed(self, answer: Answer, seconds: float) -> None:
        """Count an answer and the time that it took."""
        self._reviews(
            answer.operation if answer.operation in _OPERATIONS else OTHER,
            answer.kind if answer.kind in _KINDS else OTHER,
            answer.verdict,
            "true" if answer.dry_run else "false",
        ).inc()
        self._seconds.observe(seconds)
        for finding in answer.findings:
            self._findings[finding.code].inc()

    def refused(self, status: int) -> None:
        """Count a request that was answered with an HTTP error."""
        self._errors.labels(str(status)).inc()
