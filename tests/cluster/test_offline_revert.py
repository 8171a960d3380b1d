"""`milligpu revert` between `kubectl get` and `kubectl replace`, when milligpu is gone."""

import json
from pathlib import Path

import pytest

from tests.cluster import shapes, webhooks
from tests.cluster.api import Json
from tests.cluster.controlplane import ControlPlane
from tests.cluster.shapes import KINDS, holding, limited
from tests.cluster.typed import UNINSTALL, told, typed
from vgpu import names

pytestmark = pytest.mark.apiserver

FIXED = ("Pod", "Job")
"""Kinds whose pods' resources cannot change: they are made anew."""


def sharing(kind: str) -> Json:
    return holding(kind, shapes.pod("shares", limited("main", gpu="300m"), {"name": "other"}))


@pytest.fixture
def translated(apiserver: ControlPlane, namespace: str, tmp_path: Path) -> str:
    """A namespace with a share in an object of each kind, applied; the webhook is gone again."""
    with webhooks.before(apiserver, tmp_path):
        for kind in KINDS:
            apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(sharing(kind)))
        plain = holding("Deployment", shapes.pod("plain", {"name": "main"}))
        apiserver.api.create(plain, namespace)
    return namespace


PIPE = "kubectl -n {} get {} -o yaml | milligpu revert --to {} --only-changed - | kubectl {} -f -"
CHANGEABLE = ",".join(kind for kind in KINDS if kind not in FIXED)


def resources(plane: ControlPlane, kind: str, namespace: str) -> Json:
    [main, other] = shapes.held(plane.api.read(sharing(kind), namespace))["spec"]["containers"]
    assert not other.get("resources")
    return dict(main.get("resources") or {})


@pytest.mark.parametrize("form", ["whole", "none"])
def test_workloads_are_turned_back_where_they_are(
    apiserver: ControlPlane, translated: str, form: str
) -> None:
    plain = holding("Deployment", shapes.pod("plain", {"name": "main"}))
    before = apiserver.api.read(plain, translated)
    done = typed(apiserver, PIPE.format(translated, CHANGEABLE, form, "replace"))
    assert done.stdout.count("shares replaced") == len(KINDS) - len(FIXED)
    assert done.stderr.count(f"/shares in {translated}: turned back") == len(KINDS) - len(FIXED)
    assert apiserver.api.read(plain, translated) == before
    for kind in KINDS:
        found = resources(apiserver, kind, translated)
        if kind in FIXED:
            assert found["limits"][names.COUNT] == "30"
        elif form == "whole":
            assert found["limits"] == found["requests"] == {names.NVIDIA_GPU: "1"}
        else:
            assert found == {}
    line = PIPE.format(translated, CHANGEABLE, form, "replace").rpartition(" | ")[0]
    again = typed(apiserver, line)
    assert (again.stdout, again.stderr) == ("", "")


def test_the_page_finds_them_and_turns_them_back(
    apiserver: ControlPlane, translated: str, tmp_path: Path
) -> None:
    look = told(UNINSTALL, "2>&1 >/dev/null")
    mine = f" in {translated}: turned back"
    found = [line for line in typed(apiserver, look).stdout.splitlines() if mine in line]
    assert len(found) == len(KINDS) - 3, "all but ReplicaSet, ReplicationController, PodTemplate"

    turn = told(UNINSTALL, "cronjobs --namespace team-a", team_a=translated)
    typed(apiserver, turn)
    again = typed(apiserver, turn)
    assert (again.stdout, again.stderr) == ("", ""), "there is nothing more to turn back"
    pod = told(UNINSTALL, "get pod trainer", team_a=translated, trainer="shares")
    typed(apiserver, pod.replace("--force", "--force --grace-period=0"))  # there is no kubelet
    manifest = tmp_path / "job.yaml"
    manifest.write_text(json.dumps(sharing("Job")))
    job = told(UNINSTALL, "job.yaml", team_a=translated)
    typed(apiserver, job.replace("job.yaml", str(manifest)))

    assert mine not in typed(apiserver, look).stdout
    for kind in ("Deployment", "StatefulSet", "DaemonSet", "CronJob", "Pod", "Job"):
        assert resources(apiserver, kind, translated)["limits"] == {names.NVIDIA_GPU: "1"}
    bare = apiserver.api.read(sharing("Pod"), translated)
    main, other = bare["spec"]["containers"]
    assert "env" not in main
    assert other["env"] == [{"name": names.ENV_VISIBLE_DEVICES, "value": names.VOID}]
    [key] = bare["metadata"]["annotations"]
    assert key == names.ANNOTATION_LAST_APPLIED
    assert names.NVIDIA_GPU in {each["key"] for each in bare["spec"]["tolerations"]}


def test_before_milligpu_goes_a_manifest_takes_its_count_along(
    apiserver: ControlPlane, translated: str, tmp_path: Path
) -> None:
    (tmp_path / "model.yaml").write_text(json.dumps(sharing("Deployment")))
    line = told(UNINSTALL, "model.yaml")
    line = line.replace("model.yaml", f"{tmp_path}/model.yaml").replace(
        "whole.yaml", f"{tmp_path}/whole.yaml"
    )
    with webhooks.before(apiserver, tmp_path):
        typed(apiserver, f"{line} --namespace {translated}")
    found = resources(apiserver, "Deployment", translated)
    assert found["limits"] == found["requests"] == {names.NVIDIA_GPU: "1"}


def test_applying_it_would_leave_the_count_beside(apiserver: ControlPlane, translated: str) -> None:
    """Why the page says `replace`: what no manifest declares, no apply takes away."""
    both = {names.COUNT: "30", names.NVIDIA_GPU: "1"}
    typed(apiserver, PIPE.format(translated, "deployment", "whole", "apply"))
    assert resources(apiserver, "Deployment", translated)["limits"] == both
    forced = "apply --server-side --force-conflicts"
    typed(apiserver, PIPE.format(translated, "statefulset", "whole", forced))
    assert resources(apiserver, "StatefulSet", translated)["limits"] == both
    line = PIPE.format(translated, "deployment", "whole", "replace")
    said = typed(apiserver, line, status=1).stderr
    assert "milligpu.io/vgpu: 30 beside nvidia.com/gpu: 1; a container gets one GPU" in said
    typed(apiserver, PIPE.format(translated, "deployment", "none", "replace"))
    assert resources(apiserver, "Deployment", translated)["limits"] == {names.NVIDIA_GPU: "1"}


def test_the_asks_come_back_to_a_cluster_that_has_the_webhook(
    apiserver: ControlPlane, translated: str, tmp_path: Path
) -> None:
    before = {kind: resources(apiserver, kind, translated) for kind in KINDS}
    line = PIPE.format(translated, CHANGEABLE, "ask", "replace")
    assert "must be a standard resource" in typed(apiserver, line, status=1).stderr
    with webhooks.before(apiserver, tmp_path):
        typed(apiserver, line)
        assert {kind: resources(apiserver, kind, translated) for kind in KINDS} == before
