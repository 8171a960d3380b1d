"""What the plugin counts. Labels are closed sets, or the uuids and models of the node's cards."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal, get_args

import prometheus_client as prometheus

from plugin.allocation import RefusedError
from plugin.offer import Offer
from vgpu import slots

prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # they double every series

State = Literal["starting", "idle", "broken", "serving"]
"""Idle: there is no card to share. Broken: there should be, but none can be used."""
Rpc = Literal["Allocate", "GetPreferredAllocation"]
_SECONDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0)


class Metrics:
    """The instruments of one process, on a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=registry)
        self._slots = prometheus.Gauge(
            "milligpu_plugin_slots",
            "Slots that the kubelet is told of, by health.",
            ("gpu", "model", "health"),
            registry=registry,
        )
        self.state = prometheus.Enum(
            "milligpu_plugin_state",
            "Idle: no card to share. Broken: no card can be used.",
            states=get_args(State),
            registry=registry,
        )
        self.registrations = prometheus.Counter(
            "milligpu_plugin_registrations",
            "Registrations tried with the kubelet: accepted, refused, unreachable.",
            ("outcome",),
            registry=registry,
        )
        self.watchers = prometheus.Gauge(
            "milligpu_plugin_watchers",
            "Kubelets that listen to the list of slots: 1 when all is well.",
            registry=registry,
        )
        self._calls = prometheus.Histogram(
            "milligpu_plugin_call_seconds",
            "The kubelet's calls, by outcome: answered, refused (a sentence in the pod's status),"
            " failed (a bug of ours).",
            ("call", "outcome"),
            buckets=_SECONDS,
            registry=registry,
        )

    def offered(self, offer: Offer) -> None:
        """Set the gauges of all cards."""
        self._slots.clear()
        for card in offer.cards:
            bad = slots.PER_CARD if card.fault else 0
            for health, number in (("healthy", slots.PER_CARD - bad), ("unhealthy", bad)):
                self._slots.labels(card.gpu.uuid, card.gpu.model, health).set(number)

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
