"""A whole life of milligpu on the real node, by Helm: `make e2e-helm`.

Not among the tests that `make e2e` finds: it needs a cluster without milligpu.
"""

import json
import re

import pytest

from tests.chart import CHART
from tests.cluster import images, shapes
from tests.cluster.api import ApiError, Json
from tests.cluster.eventually import eventually
from tests.cluster.helm import Helm
from tests.cluster.node import NAME, Node
from tests.cluster.product import CARDS, deploy, served, slots
from tests.cluster.spaces import Space, asking, space
from tests.cluster.tools.say import say
from tests.cluster.typed import UNINSTALL, told, typed
from vgpu import names
from vgpu.slots import PER_CARD

pytestmark = pytest.mark.node

REPOSITORY, _, TAG = images.PRODUCT.rpartition(":")
SETTINGS = {
    "image.repository": REPOSITORY,
    "image.tag": TAG,
    "plugin.settings.MILLIGPU_INVENTORY": "simulated",
    "plugin.settings.MILLIGPU_SETTLE_SECONDS": "0",
}
PRODUCT = "app.kubernetes.io%2Fname%3Dmilligpu"
LABEL = ("-l", "app.kubernetes.io/name=milligpu", "-o", "name")
CLUSTER_WIDE = "namespaces,mutatingwebhookconfigurations,clusterroles,clusterrolebindings"


@pytest.fixture(params=["helm", "helm3"])
def helm(request: pytest.FixtureRequest, bare: Node) -> Helm:
    """Helm before that cluster."""
    return Helm(bare.plane, request.param)


def share(name: str) -> Json:
    return shapes.pod(name, asking("main", "300m"))


def by_digest(node: Node) -> str:
    """Let the node have the image by its digest, as after a pull, and return the digest."""
    ctr = ("ctr", "--namespace", "k8s.io", "images", "list", f"name=={images.PRODUCT}")
    (digest,) = re.findall(r"sha256:[0-9a-f]{64}", node.sandbox.run(*ctr))
    node.tag(images.PRODUCT, f"{REPOSITORY}@{digest}")
    return str(digest)


def images_in_use(node: Node) -> set[str]:
    """Return the images of milligpu's pods, which all have to be there and ready."""
    found = node.plane.api.get(f"/api/v1/pods?labelSelector={PRODUCT}")["items"]
    pods = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
    statuses = [each for pod in pods for each in pod["status"].get("containerStatuses", ())]
    assert len(statuses) == 4  # two of the webhook, certs, the plugin
    assert all(each["ready"] for each in statuses)
    return {pod["spec"]["containers"][0]["image"] for pod in pods}


def refuses_nothing(node: Node, namespace: str) -> None:
    """See that a plain pod is made, and an ask refused by nobody but the API server."""
    api = node.plane.api
    api.create(shapes.pod("plain", {"name": "main"}), namespace, "?dryRun=All")
    with pytest.raises(ApiError, match="must be a standard resource"):
        api.create(share("asking"), namespace, "?dryRun=All")


def test_a_release_serves_shares_and_leaves_nothing(bare: Node, helm: Helm) -> None:
    kubectl = bare.plane.kubectl
    with space(bare) as users:
        say("helm install")
        helm("install", "milligpu", str(CHART), "--wait", "--timeout", "90s", **SETTINGS)
        served(bare)
        users.create(share("first"))
        running = users.running("first")
        assert running["spec"]["containers"][0]["resources"]["limits"][names.COUNT] == "30"
        assert users.reports(running)["main"].env[names.ENV_SLOTS] == "30"

        say("helm upgrade")
        card = {"plugin.settings.MILLIGPU_INVENTORY_FILE": "one-t4"}
        digest = by_digest(bare)
        pinned = {"image.digest": digest, "image.pullPolicy": "Never"}
        helm("upgrade", "milligpu", str(CHART), "--wait", **SETTINGS, **card, **pinned)
        eventually(
            lambda: images_in_use(bare) == {f"{REPOSITORY}@{digest}"}, "all by the digest", 90
        )
        wanted = CARDS["one-t4"] * PER_CARD
        eventually(lambda: slots(bare) == wanted, "the slots of one card, by a new plugin", 60)
        users.create(share("second"))
        users.running("second")

        say("helm uninstall")
        helm("uninstall", "milligpu")
        refuses_nothing(bare, users.name)
        eventually(lambda: kubectl("get", CLUSTER_WIDE, *LABEL).stdout == "", "the end of all", 90)
        for name in ("first", "second"):
            still = users.pod(name)
            assert still["status"]["phase"] == "Running"
            assert still["status"]["containerStatuses"][0]["restartCount"] == 0


def test_after_it_the_file_is_installed_as_ever_and_taken_away(bare: Node) -> None:
    """As the page tells it, word by word; then a workload is turned back, and runs."""
    deploy(bare)
    with space(bare) as users:
        model = shapes.holding("Deployment", share("model"))
        users.kubectl("apply", "-f", "-", stdin=json.dumps(model))
        (old,) = users.all_running("model")

        say("uninstalling")
        plane = bare.plane
        typed(plane, told(UNINSTALL, "mutatingwebhookconfiguration"))
        refuses_nothing(bare, users.name)
        typed(plane, told(UNINSTALL, "kubectl delete -f"))
        gone = lambda: plane.kubectl("get", CLUSTER_WIDE, *LABEL).stdout == ""  # noqa: E731
        eventually(gone, "the end of all", 90)
        nothing_is_left(bare)
        still = users.pod(old["metadata"]["name"])
        assert still["status"]["containerStatuses"][0]["restartCount"] == 0

        users.kubectl("delete", "pod", old["metadata"]["name"])
        eventually(lambda: f"Insufficient {names.COUNT}" in waits(users), "a pod that waits")
        turn = told(UNINSTALL, "cronjobs --namespace team-a", team_a=users.name)
        typed(plane, turn.replace("--to whole", "--to none"))
        eventually(
            lambda: not any(names.COUNT in limits(pod) for pod in users.pods("model")), "new pods"
        )
        users.all_running("model")


def nothing_is_left(node: Node) -> None:
    """See what the page says of the node: no socket, and names of which there is nothing."""
    path, nothing = f"/api/v1/nodes/{NAME}", dict.fromkeys(names.GRANT_KEYS, "0").items()
    eventually(
        lambda: nothing <= node.plane.api.get(path)["status"]["allocatable"].items(), "no slots"
    )
    assert [each.name for each in node.device_plugins.iterdir() if "milligpu" in each.name] == []


def limits(pod: Json) -> Json:
    return dict(pod["spec"]["containers"][0].get("resources", {}).get("limits") or {})


def waits(users: Space) -> str:
    """Why the model's only pod is not scheduled."""
    (pod,) = users.pods("model")
    return str(pod["status"].get("conditions"))
