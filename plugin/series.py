"""What the node offers and who has it, as metrics made at each scrape: what has ended has none."""

import socket
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, get_args

from prometheus_client.core import GaugeMetricFamily, Metric, StateSetMetricFamily
from prometheus_client.registry import Collector

from plugin.gpu import MIB
from plugin.node import Node, State
from plugin.offer import Card, Held, Offer, devices, used
from vgpu import slots
from vgpu.slots import Whole

_CARD: Final = ("node", "gpu", "model")
_CONTAINER: Final = ("node", "namespace", "pod", "container", "gpu", "model")
_STATE: Final = "Serving; idle: no card to share; broken: there should be, but none can be used."
_GAUGES: Final = {
    "slots": (
        (*_CARD, "state"),
        "Slots of a card. Held by a container; free; unhealthy; withheld: not shown, since the card"
        " is another plugin's, or a share that fits on no card would seem to fit.",
    ),
    "gpu_memory_bytes": (_CARD, "Memory of a card that processes can have, all shares together."),
    "gpu_healthy": (_CARD, "1 for a card without a fault."),
    "container_slots": (
        _CONTAINER,
        "Slots of a card that a container holds; a whole card counts as all of them.",
    ),
    "container_memory_bytes": (_CONTAINER, "Memory that a container's share of a card stands for."),
}
"""Labels and meaning of each."""


class Series(Collector):
    """Reads a node. Labels are the node, its cards, and the containers that hold some of them."""

    def __init__(self, node: Node, name: str) -> None:
        """Take the node, and its name, or an empty one for the host's."""
        self._node = node
        self._name = name or socket.gethostname()

    def collect(self) -> Iterable[Metric]:
        """Return all series."""
        made = {
            name: GaugeMetricFamily(f"milligpu_plugin_{name}", text, labels=labels)
            for name, (labels, text) in _GAUGES.items()
        }
        offer, ledger = self._node.offer, self._node.ledger
        for card in offer.cards:
            of_card = (self._name, card.gpu.uuid, card.gpu.model)
            for state, number in _states(card, offer, ledger.held):
                made["slots"].add_metric((*of_card, state), number)
            made["gpu_memory_bytes"].add_metric(of_card, card.gpu.usable_mib * MIB)
            made["gpu_healthy"].add_metric(of_card, not card.fault)
        for each in ledger.holdings:
            for uuid, number in _by_card(each.ids).items():
                if gpu := offer.gpus.get(uuid):
                    labels = (self._name, each.namespace, each.pod, each.container, uuid, gpu.model)
                    memory = int(gpu.usable_mib * slots.share(number)) * MIB
                    made["container_slots"].add_metric(labels, number)
                    made["container_memory_bytes"].add_metric(labels, memory)
        states = {state: state == self._node.state for state in get_args(State)}
        return StateSetMetricFamily("milligpu_plugin_state", _STATE, states), *made.values()


def _states(card: Card, offer: Offer, everywhere: Held) -> Iterator[tuple[str, int]]:
    """Yield how many slots of a card are in each state; together they are all."""
    ids, mine = devices(card.gpu.uuid), everywhere.get(card.gpu.uuid, ())
    held = used(card.gpu.uuid, everywhere)
    free = sum(offer.vgpu[name] for name in ids if name not in mine)
    rest = len(ids) - held - free
    yield "held", held
    yield "free", free
    yield "unhealthy", rest if card.fault else 0
    yield "withheld", 0 if card.fault else rest


def _by_card(ids: Iterable[str]) -> Counter[str]:
    """Return how many slots of each card some device ids are."""
    counted = Counter[str]()
    for device in map(slots.parse, ids):
        counted[device.card] += slots.PER_CARD if isinstance(device, Whole) else 1
    return counted
