"""All nine kinds that hold pods, in both forms: what each one's pods are given."""

import datetime
from collections.abc import Iterator

import pytest

from tests.cluster import shapes
from tests.cluster.api import Json
from tests.cluster.eventually import eventually
from tests.cluster.node import Node
from tests.cluster.product import use_cards
from tests.cluster.shapes import KINDS, held, holding
from tests.cluster.spaces import Space, asking, reporting, space
from vgpu import names

pytestmark = pytest.mark.node

FORMS = ("limits", "annotation")
BATCH = ("Job", "CronJob")
GRANTED = {names.COUNT: "2"}


def wanted(kind: str, form: str) -> Json:
    """Return an object whose pods ask for 20m."""
    args = ("--once",) if kind in BATCH else ()
    if form == "limits":
        pod = shapes.pod(kind.lower(), asking("main", "20m", *args))
    else:
        note = {names.ANNOTATION_ASK: "20m"}
        pod = shapes.pod(kind.lower(), reporting("main", *args), annotations=note)
    obj = holding(kind, pod)
    obj["metadata"]["labels"] = {"app": kind.lower()}
    return obj


@pytest.fixture(scope="module", params=FORMS)
def made(node: Node, request: pytest.FixtureRequest) -> Iterator[tuple[Space, dict[str, Json]]]:
    """One object of every kind, all of them created at once: the pods start side by side."""
    use_cards(node, "two-t4")
    with space(node) as home:
        objects = {kind: home.create(wanted(kind, request.param)) for kind in KINDS}
        _is_due(home, objects["CronJob"])
        yield home, objects


def _is_due(home: Space, cronjob: Json) -> None:
    """Let the controller find that a run was missed, so that nobody waits for the full minute."""
    long_ago = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=2)
    status = {"status": {"lastScheduleTime": long_ago.strftime("%Y-%m-%dT%H:%M:%SZ")}}
    path = f"/apis/batch/v1/namespaces/{home.name}/cronjobs/{cronjob['metadata']['name']}"
    change = "application/merge-patch+json"
    home.node.plane.api.request("PATCH", path, {"spec": {"schedule": "* * * * *"}}, change)
    home.node.plane.api.request("PATCH", f"{path}/status", status, change)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("PodTemplate", *BATCH)])
def test_pods_of_every_kind_run_with_their_share(
    made: tuple[Space, dict[str, Json]], kind: str
) -> None:
    home, _ = made
    (pod,) = home.all_running(kind.lower())
    check(home, pod)


@pytest.mark.parametrize("kind", BATCH)
def test_pods_of_jobs_run_to_their_end(made: tuple[Space, dict[str, Json]], kind: str) -> None:
    home, _ = made

    def ended() -> Json:
        done = [pod for pod in home.pods(kind.lower()) if pod["status"]["phase"] == "Succeeded"]
        assert done, [pod["status"]["phase"] for pod in home.pods(kind.lower())]
        return done[0]

    check(home, eventually(ended, f"a pod of the {kind} ends well"))


def check(home: Space, pod: Json) -> None:
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["limits"] == {**GRANTED, "cpu": "160m"}
    report = home.reports(pod)["main"]
    assert report.env[names.ENV_SLOTS] == "2"
    assert report.env[names.ENV_FRACTION] == "0.02"
    assert report.env[names.ENV_VISIBLE_DEVICES] == report.env[names.ENV_GPU_UUID]
    assert report.cpu == "16000 100000"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "Pod"])
def test_the_stored_template_has_the_count_where_there_was_an_ask_and_nothing_else(
    made: tuple[Space, dict[str, Json]], kind: str
) -> None:
    home, objects = made
    stored = held(home.node.plane.api.read(objects[kind], home.name))
    (container,) = stored["spec"]["containers"]
    noted = names.ANNOTATION_ASK in stored["metadata"].get("annotations", {})
    granted = {} if noted else {"limits": GRANTED, "requests": GRANTED}
    assert container["resources"] == granted
    assert "env" not in container
