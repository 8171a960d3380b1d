"""What the plugin counts. Labels are closed sets, or the uuids and models of the node's cards."""

from typing import Final

import prometheus_client as prometheus

prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # they double every series

_SECONDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0)


class Metrics:
    """The instruments of one process, on a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=registry)
        self.registrations = prometheus.Counter(
            "milligpu_plugin_registrations",
            "Registrations tried with the kubelet: accepted, refused, unreachable.",
            ("resource", "outcome"),
            registry=registry,
        )
        self.watchers = prometheus.Gauge(
            "milligpu_plugin_watchers",
            "Kubelets that listen to the list of devices: 1 when all is well.",
            ("resource",),
            registry=registry,
        )
        self.events = prometheus.Counter(
            "milligpu_plugin_driver_events",
            "Error events (XIDs) of the driver, by what they say: a fault of the card, a program's"
            " own, or information.",
            ("gpu", "xid", "kind"),
            registry=registry,
        )
        self.calls = prometheus.Histogram(
            "milligpu_plugin_call_seconds",
            "The kubelet's calls, by outcome: answered, refused (a sentence in the pod's status),"
            " failed (a bug of ours).",
            ("resource", "call", "outcome"),
            buckets=_SECONDS,
            registry=registry,
        )
