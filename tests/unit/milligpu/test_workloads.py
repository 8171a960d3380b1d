from copy import deepcopy
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milligpu import workloads
from vgpu import names
from webhook import templates
from webhook.admission import answer
from webhook.config import Config

Json = dict[str, Any]


def container(name: str = "model", **more: Any) -> Json:
    return {"name": name, "image": "r.example/m", **more}


def asking(limits: Json, requests: Json | None = None, name: str = "model") -> Json:
    resources = {"limits": limits} if requests is None else {"limits": limits, "requests": requests}
    return container(name, resources=resources)


def spec(*containers: Json, **more: Any) -> Json:
    return {"containers": list(containers), **more}


def workload(group: str, kind: str, template: Json, **fields: Any) -> Json:
    """An object of any of the kinds, with a template (or a pod's own parts) in its place."""
    path = templates.PATHS[(group, kind)]
    document: Json = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind}
    document["metadata"] = {"name": "w", "namespace": "default"}
    if not path:
        return {
            **template,
            **document,
            "metadata": {**document["metadata"], **template["metadata"]},
        }
    place = document
    for key in path[:-1]:
        place = place.setdefault(key, {})
    place[path[-1]] = template
    for key, value in fields.items():
        place[key] = value
    return document


ALL_KINDS = pytest.mark.parametrize(("group", "kind"), templates.PATHS)


@ALL_KINDS
def test_limits_arrive_in_a_pods_requests_and_in_no_templates(group: str, kind: str) -> None:
    limits = {"gpu": "300m", "memory": "2Gi", "cpu": "2"}
    template = {
        "metadata": {},
        "spec": spec(asking(limits, {"cpu": 1}), initContainers=[asking({"gpu": "300m"})]),
    }
    document = workload(group, kind, template)
    written = deepcopy(document)
    arrived = workloads.arriving(document)
    assert document == written, "its argument stays as it is"
    held = workloads.template(arrived)
    assert held is not None
    first, main = held["spec"]["initContainers"][0], held["spec"]["containers"][0]
    assert main["resources"]["limits"] == limits
    if kind == "Pod":
        assert main["resources"]["requests"] == {**limits, "cpu": 1}
        assert first["resources"] == {"limits": {"gpu": "300m"}, "requests": {"gpu": "300m"}}
    else:
        assert main["resources"]["requests"] == {"cpu": 1}
        assert first["resources"] == {"limits": {"gpu": "300m"}}


@pytest.mark.parametrize(
    ("group", "kind", "fields", "count"),
    [
        ("apps", "Deployment", {}, 1),
        ("apps", "Deployment", {"replicas": 3}, 3),
        ("apps", "ReplicaSet", {"replicas": 0}, 0),
        ("apps", "StatefulSet", {"replicas": 2}, 2),
        ("", "ReplicationController", {"replicas": 2}, 2),
        ("apps", "DaemonSet", {}, 1),
        ("batch", "Job", {}, 1),
        ("batch", "Job", {"completions": 4}, 1),
        ("batch", "Job", {"parallelism": 4}, 4),
        ("batch", "Job", {"parallelism": 4, "completions": 2}, 2),
        ("batch", "Job", {"parallelism": 2, "completions": 4}, 2),
        ("batch", "CronJob", {"parallelism": 3}, 3),
        ("", "PodTemplate", {}, 0),
        ("apps", "Deployment", {"replicas": "three"}, 1),
    ],
)
def test_controllers_make_as_many_pods_as_they_would(
    group: str, kind: str, fields: Json, count: int
) -> None:
    template = {"metadata": {"labels": {"app": "w"}}, "spec": spec(container())}
    pods = list(workloads.pods(workload(group, kind, template, **fields)))
    assert len(pods) == count
    for number, pod in enumerate(pods):
        assert pod["kind"] == "Pod"
        assert pod["spec"] == template["spec"]
        assert pod["metadata"]["name"] == f"w-{number}"
        assert pod["metadata"]["labels"] == {"app": "w"}
        assert pod["metadata"]["namespace"] == "default"
        [owner] = pod["metadata"]["ownerReferences"]
        assert owner["controller"] is True


def test_a_pod_is_the_only_one_and_has_no_owner() -> None:
    pod = workload("", "Pod", {"metadata": {}, "spec": spec(container())})
    assert list(workloads.pods(pod)) == [pod]


@ALL_KINDS
def test_what_has_no_name_and_namespace_arrives_with_some(group: str, kind: str) -> None:
    document = workload(group, kind, {"metadata": {}, "spec": spec(container())})
    assert workloads.arriving(document)["metadata"] == document["metadata"]
    document["metadata"] = {"generateName": "w-"}
    arrived = workloads.arriving(document)["metadata"]
    assert arrived == {"generateName": "w-", "name": "generated", "namespace": "default"}


def slots(number: int, **more: Any) -> Json:
    return {**asking({names.COUNT: str(number)}), **more}


@pytest.mark.parametrize(
    ("init", "main", "needs"),
    [
        ([], [slots(30), slots(20), container()], 50),
        ([slots(40)], [slots(30)], 40),
        ([slots(40)], [slots(50)], 50),
        ([slots(5, restartPolicy="Always")], [slots(40)], 45),
        ([slots(5, restartPolicy="Always"), slots(60)], [slots(40)], 65),
        ([slots(60), slots(5, restartPolicy="Always")], [slots(40)], 60),
    ],
)
def test_the_scheduler_counts_init_containers_and_sidecars(
    init: list[Json], main: list[Json], needs: int
) -> None:
    pod = {"metadata": {"name": "p"}, "spec": spec(*main, initContainers=init)}
    assert workloads.needs(pod, names.COUNT) == needs
    assert workloads.needs(pod, names.WHOLE) == 0


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["name", "metadata", "spec", "template", "containers", "resources", "limits", "gpu"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(anything, anything, st.sampled_from(list(templates.PATHS)))
def test_malformed_manifests_reach_the_webhook(held: Any, meta: Any, kind: tuple[str, str]) -> None:
    document = {
        "apiVersion": f"{kind[0]}/v1" if kind[0] else "v1",
        "kind": kind[1],
        "metadata": {"name": "w"},
        "spec": {"template": {"metadata": meta, "spec": held}, "containers": held},
        "template": held,
    }
    arrived = workloads.arriving(document)
    review = workloads.review(arrived)
    assert review["request"]["object"]["kind"] == kind[1]
    if workloads.template(arrived) and answer(review, Config()).body["response"]["allowed"]:
        for pod in islice(workloads.pods(arrived), 3):
            if answer(workloads.review(pod), Config()).body["response"]["allowed"]:
                assert workloads.needs(pod, names.COUNT) == 0
