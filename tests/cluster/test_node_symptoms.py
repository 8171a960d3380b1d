"""What people see on a real node when a pod does not run, or the node offers nothing (B81).

Each reason why a node offers nothing has a message of its own, in the plugin's log and at its
`/healthz`, within half a minute; the others' messages are not there.
"""

import json
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from plugin.v1beta1 import deviceplugin_pb2 as api
from plugin.v1beta1 import deviceplugin_pb2_grpc as rpc
from tests.cluster import shapes
from tests.cluster.api import ApiError, Json
from tests.cluster.eventually import eventually
from tests.cluster.holders import PLUGINS
from tests.cluster.node import NAME, Node
from tests.cluster.product import SETTINGS, configured, served, slots
from tests.cluster.shapes import holding
from tests.cluster.spaces import Space, asking, reporting
from tests.cluster.symptoms import symptom
from tests.cluster.test_node_neighbour import neighbour
from vgpu import names
from vgpu.slots import PER_CARD

pytestmark = [pytest.mark.node, pytest.mark.long]

Message = re.Pattern[str]
SECONDS = 30
"""How long a person may have to wait for a reason."""
DAEMON_SET: Json = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "plugin", "namespace": names.NODE_NAMESPACE},
}
CARDS = ("SIM-first", "SIM-second")
FOLDER = "/var/lib/kubelet/device-plugins"


@pytest.fixture(autouse=True)
def _well(node: Node) -> None:
    eventually(lambda: slots(node) == 2 * PER_CARD, "the node is as it was", 60)


@pytest.fixture(scope="module", autouse=True)
def _mended(node: Node) -> Iterator[None]:
    """Let the next module find all at rest."""
    yield
    served(node)


# Where people look.


def plugin(node: Node) -> Json:
    """Return the plugin's pod; there is one at most that is not being deleted."""
    items = node.plane.api.get(PLUGINS)["items"]
    alive: list[Json] = [each for each in items if "deletionTimestamp" not in each["metadata"]]
    assert len(alive) == 1, f"{len(alive)} pods of the plugin"
    return alive[0]


def restart(node: Node) -> None:
    """Have the plugin start anew, whatever state it is in, without waiting for it."""
    node.plane.kubectl("delete", "pod", "--all", "--now", "-n", names.NODE_NAMESPACE)


def log(node: Node) -> str:
    """Return what the plugin has said, or what the one said that has just ended."""
    name = plugin(node)["metadata"]["name"]
    return node.plane.kubectl("logs", name, "-n", names.NODE_NAMESPACE, check=False).stdout


def page(node: Node, path: str) -> str:
    """Return a page of the plugin; also one that says by its status that not all is well."""
    name = plugin(node)["metadata"]["name"]
    try:
        return node.plane.api.raw("GET", f"{PLUGINS}/{name}:9410/proxy/{path}")
    except ApiError as error:
        return str(error)


def events(node: Node, namespace: str = names.NODE_NAMESPACE) -> str:
    found = node.plane.api.get(f"/api/v1/namespaces/{namespace}/events")["items"]
    return "\n".join(f"{each['reason']}: {each.get('message')}" for each in found)


# Ways to break a node.


@contextmanager
def settings(node: Node, **data: str) -> Iterator[None]:
    """Run the plugin with other settings, with which it may well not run."""
    wanted = {names.ENV_OURS + name.upper(): text for name, text in data.items()}
    before = node.plane.api.read(SETTINGS)["data"]
    node.plane.api.patch(SETTINGS, {"data": wanted})
    restart(node)
    try:
        yield
    finally:
        node.plane.api.patch(SETTINGS, {"data": {name: before.get(name) for name in wanted}})
        restart(node)


def change(node: Node, **spec: Any) -> None:
    """Change what the plugin's pods are made of."""
    node.plane.api.patch(DAEMON_SET, {"spec": {"template": {"spec": spec}}})


@contextmanager
def elsewhere(node: Node, path: str) -> Iterator[None]:
    """Run the plugin with another folder of the node in place of the kubelet's."""
    volumes = node.plane.api.read(DAEMON_SET)["spec"]["template"]["spec"]["volumes"]
    moved = [
        {**each, "hostPath": {**each["hostPath"], "path": path}}
        if each["name"] == "device-plugins"
        else each
        for each in volumes
    ]
    change(node, volumes=moved)
    restart(node)
    try:
        yield
    finally:
        change(node, volumes=volumes)
        restart(node)


@contextmanager
def cards(node: Node, **both: Any) -> Iterator[None]:
    """Run the plugin on two cards of which the file says something."""
    file = node.device_plugins / "cards.json"
    known = [{"uuid": uuid, "model": "T4", "memory_total_mib": 16384} for uuid in CARDS]
    file.write_text(json.dumps({"gpus": [each | both for each in known]}))
    try:
        with settings(node, inventory_file=f"{FOLDER}/{file.name}", probe_seconds="1"):
            yield
    finally:
        file.unlink()


@contextmanager
def another_plugin(node: Node) -> Iterator[None]:
    """Have another plugin list our cards."""
    with neighbour(node.device_plugins, *CARDS), cards(node):
        yield


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a node offers nothing, and how that shows."""

    message: Message
    state: str
    """The plugin's, as metrics and `/healthz` have it."""


NO_DRIVER = Reason(symptom("no NVIDIA driver library (libnvidia-ml.so.1) is found"), "idle")
LEFT_OUT = Reason(symptom("... is left out: the settings say so"), "idle")
MIG = Reason(
    symptom("... is left out: it is in MIG mode: its parts are for NVIDIA's own plugin"), "idle"
)
LISTED = Reason(symptom("... is left out: another plugin lists it as nvidia.com/gpu"), "idle")
ILL = Reason(symptom("it needs a reset"), "broken")
WAITING = symptom("waiting for the kubelet: there is no ...kubelet.sock")
UNREGISTERED = symptom("not registered with the kubelet: ")
TOO_OLD = symptom("requested API version ... is not supported by kubelet")
NO_FOLDER = symptom(
    "cannot make a socket in the device plugin folder /nowhere as uid 0: No such file or directory"
)
MESSAGES = [*(each.message for each in (NO_DRIVER, LEFT_OUT, MIG, LISTED, ILL)), NO_FOLDER]


def alone(message: Message, text: str) -> bool:
    """Whether a text has one of the reasons, and none of the others."""
    return [each for each in (*MESSAGES, WAITING, UNREGISTERED) if each.search(text)] == [message]


def told(node: Node, reason: Reason) -> None:
    """Wait until log, `/healthz`, metrics and the node itself tell a reason and no other."""
    state = f'milligpu_plugin_state{{milligpu_plugin_state="{reason.state}"}} 1.0'

    def everywhere() -> bool:
        assert reason.message.search(log(node)), log(node)
        assert alone(reason.message, page(node, "healthz")), page(node, "healthz")
        assert json.loads(page(node, "healthz"))["state"] == reason.state
        assert state in page(node, "metrics")
        return slots(node) == 0

    eventually(everywhere, reason.message.pattern, SECONDS)


def test_there_is_no_driver(node: Node) -> None:
    with settings(node, inventory="nvml"):
        told(node, NO_DRIVER)


def test_the_settings_leave_all_cards_out(node: Node) -> None:
    with settings(node, cards_except="Tesla T4"):
        told(node, LEFT_OUT)


def test_all_cards_are_in_mig_mode(node: Node) -> None:
    with cards(node, mig=True):
        told(node, MIG)


def test_all_cards_are_ill(node: Node) -> None:
    with cards(node, fault="it needs a reset"):
        told(node, ILL)
        for uuid in CARDS:
            line = f'milligpu_plugin_gpu_healthy{{gpu="{uuid}",model="T4",node="{NAME}"}} 0.0'
            assert line in page(node, "metrics")
        assert symptom("Readiness probe failed: HTTP probe failed with statuscode: 503").search(
            eventually(lambda: found if "503" in (found := events(node)) else None, "a 503")
        )


def test_another_plugin_lists_all_cards(node: Node) -> None:
    with another_plugin(node):
        told(node, LISTED)


def test_another_plugin_lists_all_cards_later(node: Node) -> None:
    withdrawn = symptom("another plugin lists it as nvidia.com/gpu")
    with cards(node):
        # The node's status may still tell of the cards that were simulated before.
        eventually(lambda: CARDS[0] in page(node, "healthz"), "these cards are shared", SECONDS)
        eventually(lambda: slots(node) == 2 * PER_CARD, "all slots in the node's status")
        with neighbour(node.device_plugins, *CARDS):
            eventually(lambda: withdrawn.search(log(node)), withdrawn.pattern, SECONDS)
            assert withdrawn.search(page(node, "healthz"))
            assert not LISTED.message.search(page(node, "healthz")), "they were shared before"
            eventually(lambda: slots(node) == 0, "nothing is offered")


# The plugin does not run there, or cannot do what it is there for.


def test_no_node_has_the_label(space: Space) -> None:
    node, nobody = space.node, symptom("No resources found in milligpu-node namespace.")
    selector = {"accelerator": "nvidia"}
    change(node, nodeSelector=selector)
    here = ("get", "pods", "-n", names.NODE_NAMESPACE, "--field-selector", f"spec.nodeName={NAME}")
    try:
        eventually(lambda: nobody.search(node.plane.kubectl(*here).stderr), "no pod", SECONDS)
        status = node.plane.api.read(DAEMON_SET)["status"]
        assert status["desiredNumberScheduled"] == 0
        eventually(lambda: slots(node) == 0, "no slots", SECONDS)
        space.create(shapes.pod("model", asking("main", "100m")))
        waits = symptom("Insufficient milligpu.io/vgpu")
        eventually(lambda: waits.search(why(space, "model")), waits.pattern, SECONDS)
        bound(space, "bound", "100m")
        refused = symptom(
            "no healthy devices present; cannot allocate unhealthy devices milligpu.io/vgpu"
        )
        eventually(lambda: refused.search(why(space, "bound")), refused.pattern, SECONDS)
        node.plane.kubectl("label", "node", NAME, "accelerator=nvidia")
        space.running("model")
    finally:
        change(node, nodeSelector=dict.fromkeys(selector))
        node.plane.kubectl("label", "node", NAME, "accelerator-")


def test_the_setting_names_a_folder_that_is_not_there(node: Node) -> None:
    with settings(node, device_plugin_dir="/nowhere"):
        eventually(lambda: alone(NO_FOLDER, log(node)), NO_FOLDER.pattern, SECONDS)
        eventually(lambda: slots(node) == 0, "no slots", SECONDS)


def test_the_node_has_no_such_folder(node: Node) -> None:
    missing = symptom("hostPath type check failed: /nowhere is not a directory")
    with elsewhere(node, "/nowhere"):
        eventually(lambda: missing.search(events(node)), missing.pattern, SECONDS)


class TooOld(rpc.RegistrationServicer):
    """A kubelet of before the API's version."""

    def Register(self, request: api.RegisterRequest, context: Any) -> Any:  # noqa: N802
        fault = f'requested API version "{request.version}" is not supported by kubelet.'
        context.abort(grpc.StatusCode.UNKNOWN, f'{fault} Supported version is ["v1alpha"]')


@contextmanager
def too_old(folder: Path) -> Iterator[None]:
    """Run the stand-in for such a kubelet in a folder."""
    with ThreadPoolExecutor() as pool:
        server = grpc.server(pool)
        rpc.add_RegistrationServicer_to_server(TooOld(), server)  # type: ignore[arg-type]
        server.add_insecure_port(f"unix:{folder}/kubelet.sock")
        server.start()
        try:
            yield
        finally:
            server.stop(None).wait()


def test_there_is_no_kubelet_or_one_that_does_not_want_us(node: Node) -> None:
    folder = node.sandbox.folder / "elsewhere"
    folder.mkdir(exist_ok=True)

    def tells(message: Message) -> None:
        look = lambda: alone(message, page(node, "healthz"))  # noqa: E731
        eventually(look, message.pattern, SECONDS)
        assert not json.loads(page(node, "healthz"))["kubelet_listens"]

    with elsewhere(node, str(folder)):
        tells(WAITING)
        assert "waiting for the kubelet" in log(node)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(folder / "kubelet.sock"))
        tells(UNREGISTERED)
        (folder / "kubelet.sock").unlink()
        with too_old(folder):
            tells(UNREGISTERED)
            eventually(lambda: TOO_OLD.search(page(node, "healthz")), TOO_OLD.pattern, SECONDS)
        assert "not registered" in log(node)


def test_the_kubelet_is_away(node: Node) -> None:
    node.stop_kubelet()
    try:

        def reason() -> bool:
            found = page(node, "healthz")
            return bool(WAITING.search(found) or UNREGISTERED.search(found))

        eventually(reason, "a reason", SECONDS)
    finally:
        node.start_kubelet()
    eventually(lambda: json.loads(page(node, "healthz"))["notes"] == [], "all is well again")


# Pods that wait, and pods that are refused.


def why(space: Space, name: str) -> str:
    """Return everything that a pod's status says."""
    status = space.pod(name)["status"]
    waits = [each.get("message", "") for each in status.get("conditions", [])]
    return f"{status.get('reason', '')}: {status.get('message', '')} {' '.join(waits)}"


def bound(space: Space, name: str, ask: str) -> None:
    """Create a pod past the scheduler."""
    pod = shapes.pod(name, asking("main", ask))
    pod["spec"]["nodeName"] = NAME
    space.create(pod)


def says(space: Space, name: str, message: Message) -> None:
    eventually(lambda: message.search(why(space, name)), message.pattern)


def test_pods_that_fit_nowhere_wait_or_are_refused(space: Space) -> None:
    with configured(space.node, advertise="all"):
        for name in ("first", "second"):
            space.create(shapes.pod(name, asking("main", "600m")))
            space.running(name)
        space.create(shapes.pod("large", asking("main", "900m")))
        says(space, "large", symptom("Insufficient milligpu.io/vgpu"))
        space.create(shapes.pod("whole", asking("main", "1")))
        says(space, "whole", symptom("Insufficient milligpu.io/pgpu"))
        misspelt = {"limits": {names.PREFIX + "VGPU": "30"}}
        space.create(shapes.pod("misspelt", reporting("main", resources=misspelt)))
        says(space, "misspelt", symptom("Insufficient milligpu.io/VGPU"))
        hungry = {"limits": {names.ASK: "100m", "cpu": "900"}}
        space.create(shapes.pod("hungry", reporting("main", resources=hungry)))
        says(space, "hungry", symptom("Insufficient cpu"))
        space.create(shapes.pod("split", asking("main", "500m")))
        two = symptom(
            "Allocate failed due to rpc error: code = InvalidArgument desc = 50 slots of 2 cards"
            " (...): a share is part of one card, but the node's free slots lie on several,"
            " which is unexpected"
        )
        says(space, "split", two)
        status = space.pod("split")["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
        assert status["message"].startswith("Pod was rejected: ")
        bound(space, "late", "900m")
        late = symptom(
            "requested number of devices unavailable for milligpu.io/vgpu."
            " Requested: ..., Available: ..."
        )
        says(space, "late", late)


def test_a_taint_keeps_a_pod_away(space: Space) -> None:
    taint = "example.com/team=other:NoSchedule"
    space.node.plane.kubectl("taint", "node", NAME, taint)
    try:
        space.create(shapes.pod("model", asking("main", "100m")))
        says(space, "model", symptom("had untolerated taint"))
    finally:
        space.node.plane.kubectl("taint", "node", NAME, f"{taint}-")
    space.running("model")


def test_a_workload_whose_pods_are_refused_tells_it_in_an_event(space: Space) -> None:
    quota: Json = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "shares"}}
    space.create(quota | {"spec": {"hard": {f"requests.{names.COUNT}": "20"}}})
    space.create(holding("Deployment", shapes.pod("model", asking("main", "300m"))))
    failed, creating = symptom("FailedCreate"), symptom("Error creating: ")

    def told_to_people() -> bool:
        text = events(space.node, space.name)
        return bool(failed.search(text) and creating.search(text) and "exceeded quota" in text)

    eventually(told_to_people, "the event")


def test_a_volume_of_a_secret_that_is_not_there(space: Space) -> None:
    """As the webhook's pods have it, which wait for `certs`."""
    mounts = [{"name": "tls", "mountPath": "/etc/milligpu/tls"}]
    pod = shapes.pod("webhook", reporting("main", volumeMounts=mounts))
    pod["spec"]["volumes"] = [{"name": "tls", "secret": {"secretName": names.SECRET_SERVING}}]
    space.create(pod)
    message = symptom('MountVolume.SetUp failed for volume "tls" : secret "milligpu-tls" not found')
    eventually(lambda: message.search(events(space.node, space.name)), message.pattern)
