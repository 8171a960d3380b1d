"""Who holds what on the node, by everybody's account: whether these agree, and are possible.

`faults` judges, `look` asks. What is asked at the same moment as the kubelet gives something out is
no account of one moment: look when pods neither come nor go.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import grpc
from prometheus_client.parser import text_string_to_metric_families

from plugin import pods
from tests.cluster.api import Json
from tests.cluster.devices import held
from tests.cluster.eventually import eventually
from tests.cluster.node import NAME, Node
from tests.cluster.processes import ClusterError
from vgpu import names, slots
from vgpu.slots import PER_CARD, Whole

Place: TypeAlias = tuple[str, str, str]
"""Namespace, pod, container."""
PLUGINS = f"/api/v1/namespaces/{names.NODE_NAMESPACE}/pods"


@dataclass(frozen=True, slots=True)
class Container:
    """A container that runs, and has a grant."""

    place: Place
    uid: str
    """The pod's."""
    limits: Mapping[str, int]
    """Of our two resources, by the API server's account."""
    env: Mapping[str, str]
    """Of its process."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What each of them says."""

    containers: tuple[Container, ...]
    listed: Mapping[Place, frozenset[str]]
    """Device ids, by the kubelet's list of pods."""
    written: Mapping[str, frozenset[str]]
    """Device ids by the pod's uid, by the kubelet's checkpoint."""
    states: Mapping[str, Mapping[str, int]]
    """By card and state the slots, by the plugin's metrics."""
    told: Mapping[tuple[Place, str], int]
    """By container and card the slots, by the plugin's metrics."""
    allocatable: Mapping[str, int]
    """Of our two resources, by the node's status."""


def faults(seen: Seen) -> list[str]:
    """Return in sentences what cannot be, and where two say different things."""
    return [
        *_twice(seen.listed),
        *_twice(seen.written),
        *(fault for each in seen.containers for fault in _container(each, seen)),
        *_left(seen),
        *_cards(seen),
        *_told(seen),
        *_allocatable(seen),
    ]


def _twice(holders: Mapping[Place, frozenset[str]] | Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Tell of ids that several have, and of whole cards that others have a part of."""
    pairs = [(each, holder) for holder, ids in holders.items() for each in ids]
    owners: dict[str, list[object]] = {}
    for each, holder in pairs:
        owners.setdefault(each, []).append(holder)
    yield from (f"{each} is held by {them}" for each, them in owners.items() if len(them) > 1)
    cards = {card: [each for each, _ in pairs if _card(each) == card] for card in _of(owners)}
    for card, ids in cards.items():
        if str(Whole(card)) in ids and len(ids) > 1:
            yield f"{card} is held whole, and {len(ids) - 1} of its slots are held"


def _container(it: Container, seen: Seen) -> Iterator[str]:
    """Tell where a container has not what its pod asked for, or was told something else."""
    ids, who = seen.listed.get(it.place, frozenset()), "/".join(it.place)
    wholes = {each for each in ids if isinstance(slots.parse(each), Whole)}
    has = {names.COUNT: len(ids - wholes), names.WHOLE: len(wholes)}
    if it.limits != {name: count for name, count in has.items() if count}:
        yield f"{who}: its limits are {it.limits}, it holds {has}"
    cards = _of(ids)
    if ids - wholes and len(cards) > 1:
        yield f"{who}: its slots are of {len(cards)} cards"
    if missing := ids - seen.written.get(it.uid, frozenset()):
        yield f"{who}: the checkpoint lacks {len(missing)} ids of its {len(ids)}"
    for name in (names.ENV_GPU_UUID, names.ENV_VISIBLE_DEVICES):
        if (value := it.env.get(name, "")) != ",".join(sorted(cards)):
            yield f"{who}: {name} is {value!r}, it holds some of {sorted(cards)}"
    expected = str(len(ids)) if ids - wholes else ""
    if (value := it.env.get(names.ENV_SLOTS, "")) != expected:
        yield f"{who}: {names.ENV_SLOTS} is {value!r}, not {expected!r}"


def _left(seen: Seen) -> Iterator[str]:
    """Tell of what is held by who does not run any more, or has not run yet."""
    places = {each.place for each in seen.containers}
    uids = {each.uid for each in seen.containers}
    for place in seen.listed.keys() - places:
        yield f"{'/'.join(place)} is listed with devices and does not run"
    for uid in seen.written.keys() - uids:
        yield f"pod {uid} is in the checkpoint with devices and does not run"


def _cards(seen: Seen) -> Iterator[str]:
    """Tell of cards whose slots are not a hundred, or of which not as many are held as told."""
    holding = {each for ids in (*seen.listed.values(), *seen.written.values()) for each in ids}
    for card in _of(holding) - seen.states.keys():
        yield f"{card} is held, and has no metrics"
    for card, states in seen.states.items():
        count = sum(_worth(each) for each in holding if _card(each) == card)
        if states["held"] != count:
            yield f"{card}: {count} slots are held, the plugin tells of {states['held']}"
        if sum(states.values()) != PER_CARD or states["unhealthy"]:
            yield f"{card}: its slots are {dict(states)}"


def _told(seen: Seen) -> Iterator[str]:
    """Tell where the plugin's metrics name other holders than the kubelet does."""
    counts = Counter[tuple[Place, str]]()
    for place, ids in seen.listed.items():
        for each in ids:
            counts[place, _card(each)] += _worth(each)
    for key in counts.keys() | seen.told.keys():
        if (listed := counts[key]) != (told := seen.told.get(key, 0)):
            yield f"{'/'.join(key[0])}: {listed} slots of {key[1]}, the plugin tells of {told}"


def _allocatable(seen: Seen) -> Iterator[str]:
    """Tell where the node offers something else than what is held and what is free."""
    wholes = {each for ids in seen.listed.values() for each in ids if _worth(each) > 1}
    offered = {names.COUNT: 0, names.WHOLE: 0}
    for card, states in seen.states.items():
        is_whole = str(Whole(card)) in wholes
        offered[names.COUNT] += 0 if is_whole else states["held"] + states["free"]
        offered[names.WHOLE] += is_whole or not states["held"]
    if offered != seen.allocatable:
        yield f"the node offers {seen.allocatable}, by the plugin's metrics it is {offered}"


def _card(device_id: str) -> str:
    return slots.parse(device_id).card


def _of(ids: Iterable[str]) -> set[str]:
    """Return the cards that device ids are of."""
    return {_card(each) for each in ids}


def _worth(device_id: str) -> int:
    """Return how many slots a device is."""
    return PER_CARD if isinstance(slots.parse(device_id), Whole) else 1


def agree(node: Node, seconds: float) -> float:
    """Wait until all accounts agree, and return the seconds that this took."""
    start, found = time.monotonic(), list[str]()

    def again() -> bool:
        try:
            found[:] = faults(look(node))
        except (grpc.aio.AioRpcError, ClusterError, LookupError, ValueError) as error:
            found[:] = [repr(error)]  # somebody does not answer yet, or a container has just ended
        return not found

    eventually(again, lambda: "one account of who holds what: " + "; ".join(found), seconds)
    return time.monotonic() - start


def look(node: Node) -> Seen:
    """Ask the API server, the kubelet, the containers' processes and the plugin."""
    listed = asyncio.run(pods.look(node.device_plugins.parent / "pod-resources/kubelet.sock"))
    written: dict[str, frozenset[str]] = {}
    for each in held(node):
        if each.resource in names.GRANT_KEYS:
            written[each.pod] = written.get(each.pod, frozenset()) | each.ids
    states, told = _metrics(node)
    found = node.plane.api.get(f"/api/v1/nodes/{NAME}")["status"]["allocatable"]
    return Seen(
        tuple(_containers(node)),
        {(it.namespace, it.pod, it.container): frozenset(it.ids) for it in listed.holdings},
        written,
        states,
        told,
        {name: int(found.get(name, "0")) for name in names.GRANT_KEYS},
    )


def _containers(node: Node) -> Iterator[Container]:
    """Yield the containers with a grant that run, each with its process's environment."""
    pids = node.pids()
    for pod in node.plane.api.get("/api/v1/pods")["items"]:
        running = {
            each["name"]: each["containerID"]
            for each in pod["status"].get("containerStatuses", ())
            if "running" in each["state"]
        }
        for each in pod["spec"]["containers"]:
            if (limits := grant(each)) and each["name"] in running:
                environ = node.sandbox.run("cat", f"/proc/{pids[running[each['name']]]}/environ")
                pairs = (line.partition("=") for line in environ.split("\0"))
                env = {name: value for name, _, value in pairs}
                metadata = pod["metadata"]
                place = (metadata["namespace"], metadata["name"], each["name"])
                yield Container(place, metadata["uid"], limits, env)


def grant(container: Json) -> dict[str, int]:
    """Return what a container has of our two resources in its limits."""
    limits = container.get("resources", {}).get("limits", {})
    return {name: int(limits[name]) for name in names.GRANT_KEYS if name in limits}


def _metrics(node: Node) -> tuple[dict[str, dict[str, int]], dict[tuple[Place, str], int]]:
    """Return what the plugin's metrics say of cards, and of containers."""
    states: dict[str, dict[str, int]] = {}
    told: dict[tuple[Place, str], int] = {}
    for family in text_string_to_metric_families(scrape(node)):
        for sample in family.samples:
            labels, value = sample.labels, int(sample.value)
            if sample.name == "milligpu_plugin_slots":
                states.setdefault(labels["gpu"], {})[labels["state"]] = value
            elif sample.name == "milligpu_plugin_container_slots":
                place = (labels["namespace"], labels["pod"], labels["container"])
                told[place, labels["gpu"]] = value
    return states, told


def scrape(node: Node) -> str:
    """Return what the plugin answers when its metrics are asked for."""
    [pod] = node.plane.api.get(PLUGINS)["items"]
    path = f"{PLUGINS}/{pod['metadata']['name']}:9410/proxy/metrics"
    return node.plane.api.raw("GET", path)
