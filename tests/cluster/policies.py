"""A namespace's policies and the pods below them, as the how-to page writes them in its tables."""

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.cluster import shapes
from tests.cluster.api import Api, ApiError, Json
from tests.cluster.eventually import eventually
from tests.documents import ROOT, Row, code, rows
from vgpu import names

PAGE = (ROOT / "docs/how-to/quotas-and-limits.md").read_text()
QUOTA = "shares"
_OTHERS = {"helper": "containers", "init": "initContainers", "sidecar": "initContainers"}
_FACTS = re.compile(r"(refused|limit|request|class|counted)[^`;]*`([^`]*)`")
_numbers = itertools.count(1)


def table(heading: str, columns: int) -> list[Row]:
    """The rows below a heading of the page, of the table with so many columns."""
    found = [row for row in rows(PAGE, heading) if len(row) == columns]
    assert found, f"no table of {columns} columns below {heading}"
    return found


def written(cell: str) -> Json:
    """What the YAML in a cell says, all of it together."""
    result: Json = {}
    for text in code(cell):
        result |= YAML(typ="safe", pure=True).load(text)
    return result


def pod(cell: str) -> Json:
    """The pod that a cell describes: container `main`, and what is added to it."""
    parts = written(cell)
    sides = {side: parts.pop(side) for side in ("limits", "requests") if side in parts}
    notes = parts.pop("annotations", None)
    made = shapes.pod(f"p{next(_numbers)}", {"name": "main", "resources": sides}, annotations=notes)
    if "resources" in parts:
        made["spec"]["resources"] = parts.pop("resources")
    for name, resources in parts.items():
        body = {"name": name, "image": "none", "resources": resources}
        body |= {"restartPolicy": "Always"} if name == "sidecar" else {}
        made["spec"].setdefault(_OTHERS[name], []).append(body)
    return made


def limit_range(api: Api, namespace: str, item: Json) -> None:
    """Give a namespace a LimitRange of one item, for containers if it does not say."""
    spec = {"limits": [{"type": "Container", **item}]}
    api.create(_object("LimitRange", "limits", spec), namespace)


def quota(api: Api, namespace: str, spec: Json) -> None:
    """Give a namespace a ResourceQuota that is in force.

    Nobody counts here but the API server itself, at each creation, from a status that says what
    there is: the one that a controller would write into a new namespace.
    """
    _count_from_zero(api, namespace, _object("ResourceQuota", QUOTA, spec))
    # The API server sees quotas a moment later, one after the other: this one after that one.
    _count_from_zero(
        api, namespace, _object("ResourceQuota", "last", {"hard": {"configmaps": "0"}})
    )
    probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}}

    def in_force() -> bool:
        try:
            api.create(probe, namespace, "?dryRun=All")
        except ApiError as error:
            return "exceeded quota: last" in str(error)
        return False

    eventually(in_force, "the quotas to be in force")


def _count_from_zero(api: Api, namespace: str, obj: Json) -> None:
    made = api.create(obj, namespace)
    hard = made["spec"]["hard"]
    made["status"] = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/{obj['metadata']['name']}/status"
    api.request("PUT", path, made)


def used(api: Api, namespace: str) -> str:
    """Return what of the one thing that the quota names is used; empty if nobody has counted."""
    status = api.read(_object("ResourceQuota", QUOTA, {}), namespace)["status"]
    return " ".join(status.get("used", {}).values())


def _object(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def judge(outcome: str, attempt: Callable[[], Json], counted: Callable[[], str] = str) -> None:
    """Hold an attempt to create a pod to what the page says comes of it."""
    said: dict[str, Any] = dict(_FACTS.findall(outcome))
    assert said, f"nothing is said: {outcome}"
    if message := said.get("refused"):
        with pytest.raises(ApiError) as refusal:
            attempt()
        assert message in refusal.value.body["message"]
        return
    made = attempt()
    resources = made["spec"]["containers"][0]["resources"]
    found = {"limit": resources.get("limits", {}), "request": resources.get("requests", {})}
    facts = {fact: side.get(names.CPU, "none") for fact, side in found.items()}
    facts |= {"class": made["status"]["qosClass"], "counted": counted()}
    assert {fact: facts[fact] for fact in said} == said
