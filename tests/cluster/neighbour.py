"""Another mutating webhook beside ours: what sidecar injectors and their like do to pods.

What it does is a list of habits, and the path of its URL names them: `/sidecar,variables`. Like a
good injector it does nothing twice. A namespace chooses one by its label: `neighbour: before-usual`
is the one called `usual`, in a configuration that sorts before ours.
"""

import base64
import copy
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from jsonpatch import JsonPatch

from tests.cluster import pki
from tests.cluster.api import Api, Json, containers
from tests.cluster.eventually import eventually
from tests.cluster.https import serving
from vgpu import names
from webhook import templates

LABEL = "neighbour"
BEFORE, AFTER = "before", "after"
CONFIGURATIONS = {BEFORE: "a-neighbour", AFTER: "z-neighbour"}
"""Configurations run in the order of their names, and ours is `milligpu`."""
SIDECAR, SAMPLER, INIT = "proxy", "sampler", "proxy-init"
"""The containers that it adds; the sampler asks."""
SAMPLER_ASK = "100m"
CPU = "1500m"
LABELS = {"neighbour.example/injected": "true", names.PREFIX + "mutated": "true"}
ARGS = ["--y=1"]
RIVAL: Json = {
    "name": SIDECAR,
    "args": ARGS,
    "resources": {"limits": {names.ASK: "300m"}},
}
"""A sidecar whose ask is that of the pod's annotation."""
VARIABLES = {
    "PROXY": "yes",
    names.ENV_VISIBLE_DEVICES: "all",
    names.ENV_CUDA_DEVICES: "0,1",
    names.ENV_SLOTS: "100",
    names.ENV_FRACTION: "0.9",
}
CLAIMS = {
    names.PREFIX + "gpu-mutated": "true",
    names.ANNOTATION_SHARE: '{"main":{"slots":90,"share":"0.9"}}',
}
FLAG = "--per_process_gpu_memory_fraction=0.9"


def in_front(section: str, container: Json) -> Callable[[Json], None]:
    """Return the habit of putting a container before the others."""

    def put(pod: Json) -> None:
        listed = pod["spec"].setdefault(section, [])
        if all(other["name"] != container["name"] for other in listed):
            listed.insert(0, {"image": "none", **copy.deepcopy(container)})

    return put


def set_variables(pod: Json) -> None:
    """Give every container variables, those that it has not yet."""
    for container in containers(pod):
        env = container.setdefault("env", [])
        present = {entry["name"] for entry in env}
        env += [{"name": key, "value": VARIABLES[key]} for key in VARIABLES if key not in present]


def limit_cpus(pod: Json) -> None:
    """Give every container a CPU limit, whatever it has."""
    for container in containers(pod):
        limits = container.setdefault("resources", {}).setdefault("limits", {})
        limits[names.CPU] = CPU


def add_flags(pod: Json) -> None:
    """Append a flag to every container's arguments."""
    for container in containers(pod):
        if FLAG not in container.get("args", [FLAG]):
            container["args"].append(FLAG)


def add_labels(pod: Json) -> None:
    """Label the pod."""
    _metadata(pod, "labels").update(LABELS)


def claim(pod: Json) -> None:
    """Claim, by annotations, that our webhook has been there and that its record says so."""
    _metadata(pod, "annotations").update(CLAIMS)


def note_the_first(pod: Json) -> None:
    """Note which container came first before anything was put before it, as service meshes do."""
    first = pod["spec"]["containers"][0]["name"]
    _metadata(pod, "annotations").setdefault(names.ANNOTATION_DEFAULT_CONTAINER, first)


def promote_the_sidecar(pod: Json) -> None:
    """Make its own container the one that tools take."""
    _metadata(pod, "annotations")[names.ANNOTATION_DEFAULT_CONTAINER] = SIDECAR


def _metadata(pod: Json, field: str) -> Json:
    found: Json = pod.setdefault("metadata", {}).setdefault(field, {})
    return found


HABITS: dict[str, Callable[[Json], None]] = {
    "note": note_the_first,
    "sidecar": in_front("containers", {"name": SIDECAR}),
    "sampler": in_front(
        "containers",
        {"name": SAMPLER, "args": ARGS, "resources": {"limits": {names.ASK: SAMPLER_ASK}}},
    ),
    "rival": in_front("containers", RIVAL),
    "init": in_front("initContainers", {"name": INIT}),
    "variables": set_variables,
    "cpus": limit_cpus,
    "labels": add_labels,
    "claims": claim,
    "flags": add_flags,
    "promotion": promote_the_sidecar,
}
NEIGHBOURS = {
    "usual": "note,sidecar,sampler,init,variables,cpus,labels,claims",
    "labelling": "labels",
    "forgetful": "sidecar",
    "promoting": "sidecar,promotion",
    "rival": "rival",
    "asking": "sampler",
    "flagging": "flags",
    "insisting": "variables",
}
INSISTING = "insisting"
"""The only one that wants to be asked again after others changed something."""


def habituated(obj: Json, habits: str) -> Json:
    """Return an object as a neighbour with these habits wants it."""
    changed = copy.deepcopy(obj)
    group = obj["apiVersion"].rpartition("/")[0]
    pod = templates.get(changed, templates.PATHS[group, obj["kind"]])
    for habit in habits.split(","):
        HABITS[habit](pod)
    return changed


def answered(review: Json, habits: str) -> Json:
    """Return the AdmissionReview that answers one."""
    request = review["request"]
    patch = JsonPatch.from_diff(
        request["object"], habituated(request["object"], habits)
    ).to_string()
    response = {"uid": request["uid"], "allowed": True}
    response |= {"patchType": "JSONPatch", "patch": base64.b64encode(patch.encode()).decode()}
    return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(answered(review, self.path.strip("/").partition("?")[0])).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def listening(pair: pki.Pair, folder: Path) -> AbstractContextManager[str]:
    """Serve the neighbours over TLS and give their URL."""
    return serving(_Handler, pair, folder)


def configuration(place: str, url: str, ca: bytes) -> Json:
    """Return the configuration that calls the neighbours of one place."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": CONFIGURATIONS[place]},
        "webhooks": [
            {
                "name": f"{name}.neighbour.example",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "reinvocationPolicy": "IfNeeded" if name == INSISTING else "Never",
                "clientConfig": {
                    "url": f"{url}/{habits}",
                    "caBundle": base64.b64encode(ca).decode(),
                },
                "namespaceSelector": {"matchLabels": {LABEL: f"{place}-{name}"}},
                "rules": [_rule("", "v1"), _rule("apps", "v1"), _rule("batch", "v1")],
            }
            for name, habits in NEIGHBOURS.items()
        ],
    }


def _rule(group: str, version: str) -> Json:
    kinds = [kind.lower() + "s" for of, kind in templates.PATHS if of == group]
    operations = ["CREATE", "UPDATE"] if group else ["CREATE"]  # a pod's containers are for life
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": operations,
        "resources": kinds,
    }


@contextmanager
def installed(api: Api, folder: Path) -> Iterator[None]:
    """Have the API server call the neighbours in the namespaces that choose one."""
    ca = pki.authority()
    with listening(pki.issue(ca, "127.0.0.1"), folder) as url:
        made = [api.create(configuration(place, url, ca.certificate)) for place in CONFIGURATIONS]
        try:
            for place in CONFIGURATIONS:
                _wait_until_called(api, space(api, f"is-{place}-called", f"{place}-labelling"))
            yield
        finally:
            for each in made:
                api.delete(each)


def space(api: Api, name: str, neighbour: str) -> str:
    """Make a namespace that chooses a neighbour, such as `after-usual`."""
    metadata = {"name": name, "labels": {LABEL: neighbour}}
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return name


def _wait_until_called(api: Api, namespace: str) -> None:
    probe = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}}
    probe["spec"] = {"containers": [{"name": "main", "image": "none"}]}

    def called() -> bool:
        made = api.create(probe, namespace, query="?dryRun=All")
        return bool(made["metadata"].get("labels") == LABELS)

    eventually(called, f"the neighbour's label on a pod in {namespace}", seconds=15)
