from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milligpu import workloads
from vgpu import names
from webhook import templates

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
        ("apps", "DaemonSet", {"replicas": 9}, 1),
        ("batch", "Job", {}, 1),
        ("batch", "Job", {"parallelism": 4}, 4),
        ("batch", "Job", {"parallelism": 4, "completions": 2}, 2),
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
    assert len(pods) == len({name for name, _ in pods}) == count
    for _, pod in pods:
        assert pod["kind"] == "Pod"
        assert pod["spec"] == template["spec"]
        assert pod["metadata"]["labels"] == {"app": "w"}
        assert pod["metadata"]["namespace"] == "default"
        [owner] = pod["metadata"]["ownerReferences"]
        assert owner["controller"] is True
        assert owner["kind"] == {"Deployment": "ReplicaSet", "CronJob": "Job"}.get(kind, kind)


def test_only_a_stateful_sets_pods_have_names_of_their_own() -> None:
    template = {"metadata": {}, "spec": spec(container())}
    [(name, pod)] = workloads.pods(workload("apps", "StatefulSet", template))
    assert pod["metadata"]["name"] == name == "w-0"
    [(_, pod)] = workloads.pods(workload("apps", "Deployment", template))
    assert "name" not in pod["metadata"]
    assert pod["metadata"]["generateName"] == "w-"


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


def test_a_pods_own_variables_beat_the_plugins_and_each_has_its_origin() -> None:
    written: list[Json] = [
        {"name": "MINE", "value": "1"},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {}}},
    ]
    stored = [*written, {"name": "ADDED", "value": "0.3"}, {"name": "BOTH", "value": "pod"}]
    seen = workloads.environment(written, stored, {"BOTH": "plugin", "CARD": "SIM-1"})
    assert seen == {
        "MINE": ("1", "yours"),
        "SECRET": ("(from secretKeyRef)", "yours"),
        "ADDED": ("0.3", "webhook"),
        "BOTH": ("pod", "webhook"),
        "CARD": ("SIM-1", "plugin"),
    }


def test_a_variable_may_use_the_ones_before_it_but_not_the_plugins() -> None:
    stored = [
        {"name": "B", "value": "$(A) $(CARD)"},
        {"name": "A", "value": "1"},
        {"name": "C", "value": "$(A)"},
    ]
    seen = workloads.environment(stored, stored, {"CARD": "x"})
    assert (seen["B"][0], seen["C"][0]) == ("$(A) $(CARD)", "1")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$(ONE)", "A"),
        ("-$(TWO)-", "-B-"),
        ("$(ONE)$(TWO)", "AB"),
        ("$(ABSENT)", "$(ABSENT)"),
        ("$$(ONE)", "$(ONE)"),
        ("$$$(ONE)", "$A"),
        ("$ONE", "$ONE"),
        ("$(ONE", "$(ONE"),
        ("x-$$ONE", "x-$ONE"),
        ("$(EMPTY)", ""),
        ("5 $", "5 $"),
    ],
)
def test_arguments_are_filled_in_as_by_the_kubelet(text: str, value: str) -> None:
    assert workloads.expanded(text, {"ONE": "A", "TWO": "B", "EMPTY": ""}) == value


def test_what_is_asked_is_said_for_each_container() -> None:
    template = {
        "metadata": {"annotations": {names.ANNOTATION_ASK: "b=0.1"}},
        "spec": spec(
            asking({"nvidia.com/gpu": 1, "memory": "1Gi"}, name="a"),
            container("b"),
            initContainers=[asking({"gpu": "300m"}, name="i")],
        ),
    }
    assert workloads.asked(workload("batch", "CronJob", template)) == (
        "i: gpu: 300m",
        "a: nvidia.com/gpu: 1",
        "annotation milligpu.io/gpu: b=0.1",
    )
    assert workloads.asked({"apiVersion": "v1", "kind": "Service", "metadata": {}}) == ()


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
    workloads.asked(document)
    assert workloads.review(workloads.arriving(document))["request"]["object"]["kind"] == kind[1]
