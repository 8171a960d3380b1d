"""Where a pod is, and on which card: as far as the API server knows."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby

from vgpu import names
from webhook.pod import Container, Json, mapping, sequence

_AGAIN = "a controller makes another pod; a bare pod stays as it is: delete it and create it again"
_MEANINGS = {
    f"Insufficient {names.COUNT}": "no node that the pod may run on has so many slots of one card"
    " free; it waits until others end. A node without any has no plugin at work",
    f"Insufficient {names.WHOLE}": "no node that it may run on has so many cards without a pod",
    "UnexpectedAdmissionError": f"no card had so many slots, or one was just taken; {_AGAIN}",
    f"OutOf{names.PREFIX}": f"another pod was faster; {_AGAIN}",
}
"""Of what the scheduler and the kubelet say."""
_UNKNOWN = "not known to the API server, as it is from Kubernetes 1.36 on;"
_UNKNOWN += f" in the container, {names.ENV_GPU_UUID} has it"


def state(pod: Json) -> Iterator[tuple[str, str]]:
    """Yield where a pod is and why it does not run. Raises Denied for a status of wrong types."""
    status, node = mapping(pod, "status", ""), mapping(pod, "spec", "").get("nodeName")
    if phase := status.get("phase"):
        yield "state", f"{phase} on node {node}" if node else str(phase)
    conditions = sequence(status, "conditions", "status", dict)
    waits = {"type": "PodScheduled", "status": "False"}.items()
    for each in (status, *(each for each in conditions if waits <= each.items())):
        text = ": ".join(str(each[key]) for key in ("reason", "message") if each.get(key))
        yield from [("because", text)] if text else []
        yield from (("that is", meant) for words, meant in _MEANINGS.items() if words in text)


def cards(pod: Json, item: Container) -> Iterator[tuple[str, str]]:
    """Yield card, health and slots of a container. Raises Denied for a status of wrong types."""
    status, key = mapping(pod, "status", ""), f"{item.section[:-1]}Statuses"
    held = defaultdict[tuple[str, str], list[str]](list)
    for each in sequence(status, key, "status", dict):
        mine = each if each.get("name") == item.name else {}
        for resource in sequence(mine, "allocatedResourcesStatus", key, dict):
            for device in sequence(resource, "resources", key, dict):
                card, _, slot = str(device.get("resourceID")).partition("::")
                if resource.get("name") in names.GRANT_KEYS:
                    held[card, str(device.get("health"))].append(slot)
    for (card, health), found in sorted(held.items()):
        yield "card", f"{card}, {health}: {_listed(found)}"
    if not held and status.get("phase") == "Running":
        yield "card", _UNKNOWN


def _listed(found: list[str]) -> str:
    """Return slots as in `slots 0-29, 40`."""
    numbers = sorted(int(slot) for slot in found if slot.isdecimal())
    runs = groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ends = [[number for _, number in run] for _, run in runs]
    texts = (f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in ends)
    return f"slots {', '.join(texts)}" if numbers else "all of it"
