"""What the plugin counts. Labels are closed sets, or the uuids and models of the node's cards."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import generate_latest

from plugin.allocation import RefusedError
from plugin.offer import Offer
from vgpu import slots

Rpc = Literal["Allocate", "GetPreferredAllocation"]
_SECONDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0)
_STATES: Final = ("starting", "idle", "broken", "serving")


class Metrics:
    """The instruments of one process, on a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._slots = Gauge(
            "milligpu_plugin_slots",
            "Slots that the kubelet is told of, by health.",
            ("gpu", "model", "health"),
            registry=self.registry,
        )
        self._state = Enum(
            "milligpu_plugin_state",
            "Idle: no card to share. Broken: no card can be used.",
            states=_STATES,
            registry=self.registry,
        )
        self._registrations = Counter(
            "milligpu_plugin_registrations",
            "Registrations tried with the kubelet.",
            ("outcome",),
            registry=self.registry,
        )
        self.watchers = Gauge(
            "milligpu_plugin_watchers",
            "Kubelets that listen to the list of slots: 1 when all is well.",
            registry=self.registry,
        )
        self._calls = Histogram(
            "milligpu_plugin_call_seconds",
            "The kubelet's calls, by outcome: answered, refused (a sentence in the pod's status),"
            " failed (a bug of ours).",
            ("call", "outcome"),
            buckets=_SECONDS,
            registry=self.registry,
        )

    def offered(self, offer: Offer) -> None:
        """Set the gauges of all cards."""
        self._slots.clear()
        for card in offer.cards:
            for health, count in (("healthy", not card.fault), ("unhealthy", bool(card.fault))):
                self._slots.labels(card.gpu.uuid, card.gpu.model, health).set(
                    slots.PER_CARD * count
                )

    def state(self, state: str) -> None:
        """Set the state of the node."""
        self._state.state(state)

    def registered(self, outcome: Literal["accepted", "refused", "unreachable"]) -> None:
        """Count a registration."""
        self._registrations.labels(outcome).inc()

    @contextmanager
    def call(self, name: Rpc) -> Iterator[None]:
        """Time and count a call of the kubelet."""
        start, outcome = time.perf_counter(), "failed"
        try:
            yield
            outcome = "answered"
        except RefusedError:
            outcome = "refused"
            raise
        finally:
            self._calls.labels(name, outcome).observe(time.perf_counter() - start)

    def exposition(self) -> bytes:
        """Return all of it in Prometheus' text format."""
        return generate_latest(self.registry)
