"""Quotas and limits before real controllers: what a person finds who asks why a pod is missing."""

import json
import re
import shlex

import pytest

from tests.cluster import policies, shapes
from tests.cluster.api import Json
from tests.cluster.eventually import eventually
from tests.cluster.policies import PAGE
from tests.cluster.shapes import holding
from tests.cluster.spaces import Space, reporting
from tests.documents import blocks
from vgpu import names

pytestmark = pytest.mark.node

MISSING = PAGE.split("\n## Find out why a pod is missing\n")[1].split("\n## ")[0]
(COMMANDS,) = blocks(MISSING, "sh")


def deployment(**limits: str) -> Json:
    container = reporting("main", resources={"limits": {"gpu": "300m", **limits}})
    return holding("Deployment", shapes.pod("model", container))


def apply(space: Space, obj: Json) -> str:
    """Apply an object, and return what the person is warned of."""
    command = ("apply", "-n", space.name, "-f", "-")
    return space.node.plane.kubectl(*command, stdin=json.dumps(obj)).stderr


def test_what_keeps_a_deployments_pods_away_can_be_found(space: Space) -> None:
    policies.limit_range(space.node.plane.api, space.name, {"type": "Pod", "max": {names.CPU: "2"}})
    warning = apply(space, deployment())
    assert warning.startswith("Warning: milligpu: container main: gets a CPU limit of 2400m")
    assert warning in MISSING
    refusal = re.compile(
        r'pods "model-\w+-\w+" is forbidden: maximum cpu usage per Pod is 2, but limit is 2400m'
    )
    assert refusal.search(MISSING)
    commands = COMMANDS.splitlines()
    assert len(commands) == 3
    for line in commands:
        program, *command = shlex.split(line)
        assert program == "kubectl"
        eventually(
            lambda command=command: refusal.search(space.kubectl(*command)),  # type: ignore[misc]
            f"the refusal in what {line} shows",
        )
    # And the way out leads out.
    assert apply(space, deployment(cpu="200m")) == ""
    (pod,) = space.all_running("model")
    assert pod["spec"]["containers"][0]["resources"]["limits"][names.CPU] == "200m"


def test_a_quota_holds_a_deployment_to_its_slots(space: Space) -> None:
    """The controllers count as the API server does, and count down when a pod is gone."""
    api, wanted = space.node.plane.api, f"requests.{names.COUNT}"
    obj = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": policies.QUOTA}}
    api.create({**obj, "spec": {"hard": {wanted: "50"}}}, space.name)
    eventually(lambda: policies.used(api, space.name) == "0", "a quota that is in force")
    two = deployment()
    two["spec"]["replicas"] = 2
    apply(space, two)
    refusal = f"exceeded quota: shares, requested: {wanted}=30, used: {wanted}=30"
    show = ("get", "events", "--field-selector", "reason=FailedCreate")
    eventually(lambda: refusal in space.kubectl(*show), "an event that names the quota")
    space.all_running("model")
    assert policies.used(api, space.name) == "30"
    space.kubectl("scale", "deployment/model", "--replicas=0")
    eventually(lambda: policies.used(api, space.name) == "0", "what is gone to be counted off")
