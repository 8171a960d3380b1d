"""The page of permissions names every right that the manifest gives, and no other."""

import re

from tests.contract.test_deploy import CONTAINERS, PODS, named, of
from tests.documents import ROOT, code, rows
from vgpu import names

PAGE = (ROOT / "docs" / "reference" / "permissions.md").read_text()
Right = tuple[str, str, str, tuple[str, ...], tuple[str, ...]]


def given() -> set[Right]:
    """Return who may do what where, by the bindings of the manifest."""
    found = set()
    for binding in of("RoleBinding") + of("ClusterRoleBinding"):
        (subject,), role = binding["subjects"], binding["roleRef"]
        where = binding["metadata"].get("namespace", "the cluster")
        for rule in named(role["kind"], role["name"])["rules"]:
            who, resources = subject["name"], rule["resources"]
            what = (tuple(rule.get("resourceNames", ())), tuple(rule["verbs"]))
            found |= {(who, where, resource, *what) for resource in resources}
    return found


def documented() -> set[Right]:
    return {
        (code(who)[0], where.strip("`"), code(what)[0], tuple(code(name)), tuple(code(verbs)))
        for who, where, what, name, verbs, why in rows(PAGE, "In the API")
        if why
    }


def test_every_right_is_there_with_its_reason() -> None:
    assert documented() == given()
    assert len(given()) == 3


def test_every_role_is_bound() -> None:
    bound = {each["roleRef"]["name"] for each in of("RoleBinding") + of("ClusterRoleBinding")}
    assert {each["metadata"]["name"] for each in of("Role") + of("ClusterRole")} == bound


def test_every_folder_of_the_node_is_there() -> None:
    table = rows(PAGE, "On the nodes")
    folders = {code(what)[0]: what for what, why in table if why and code(what)}
    host = {
        each["hostPath"]["path"]: each["name"]
        for pod in PODS.values()
        for each in pod.get("volumes", ())
        if "hostPath" in each
    }
    assert folders.keys() == host.keys()
    mounts = {each["name"]: each for each in CONTAINERS["plugin"]["volumeMounts"]}
    for folder, volume in host.items():
        said = "to read" if mounts[volume].get("readOnly") else "to write"
        assert folders[folder].endswith(said)


def test_the_network_is_as_the_policies_have_it() -> None:
    table = {code(who)[0]: (at, calls) for who, at, calls in rows(PAGE, "In the network")}
    assert table.keys() == {each["metadata"]["name"] for each in of("NetworkPolicy")}
    for name, (at, calls) in table.items():
        spec = named("NetworkPolicy", name)["spec"]
        ports = {each["name"]: each for each in CONTAINERS[name].get("ports", ())}
        opened = [each["port"] for rule in spec.get("ingress", ()) for each in rule["ports"]]
        assert code(at) == [str(ports[each]["containerPort"]) for each in opened]
        assert calls.startswith("nobody") is ("Egress" in spec["policyTypes"])


def test_the_users_are_those_of_the_pods() -> None:
    users = {name: pod["securityContext"]["runAsUser"] for name, pod in PODS.items()}
    said = [int(each) for each in re.findall(r"\buser (\d+)", PAGE)]
    assert said == [users["webhook"], users["plugin"]]
    assert users["certs"] == users["webhook"]
    levels = {
        each["metadata"]["name"]: each["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        for each in of("Namespace")
    }
    assert levels == {names.NAMESPACE: "restricted", names.NODE_NAMESPACE: "privileged"}
    assert all(f"`{level}`" in PAGE for level in levels.values())
