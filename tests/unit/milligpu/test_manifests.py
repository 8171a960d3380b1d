import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from milligpu import kubeyaml, manifests
from milligpu.manifests import ManifestError

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"


def read(tmp_path: Path, text: str | bytes) -> manifests.File:
    path = tmp_path / "my.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return manifests.read(path)


def test_documents_lists_and_lists_in_lists_are_read_in_order(tmp_path: Path) -> None:
    def listed(*items: dict[str, Any]) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "PodList", "items": list(items)}

    documents = [pod("a"), listed(pod("b"), listed(pod("c"))), pod("d")]
    text = "\n---\n---\n".join(json.dumps(document) for document in documents)
    file = read(tmp_path, text)
    assert [item.title for item in file.manifests] == ["Pod/a", "Pod/b", "Pod/c", "Pod/d"]
    where = [item.where.removeprefix(str(tmp_path)) for item in file.manifests]
    assert where == [
        "/my.yaml, document 1",
        "/my.yaml, document 2, item 1",
        "/my.yaml, document 2, item 2, item 1",
        "/my.yaml, document 3",
    ]


def test_a_generated_name_is_a_name(tmp_path: Path) -> None:
    [item] = read(tmp_path, POD.replace("name:", "generateName:")).manifests
    assert item.title == "Pod/a"


BOMB = "a0: &a0 x\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Pod\n  metadata: {}\n", ", line 2: mapping values are not allowed here"),
        (POD + "---\na: [1,\n", ", line 6: expected the node content"),
        (POD + "metadata: {}\n", ', line 4: found duplicate key "metadata"'),
        ("x: {{ .Values.gpu }}\n", ", line 1: found unhashable key; if it is a template, render"),
        (
            POD + "{{- end }}\n",
            ", line 5: could not find expected ':'; if it is a template, render",
        ),
        ('{"gpu": ' + "[" * 10**5 + "]" * 10**5 + "}", ": maximum recursion depth exceeded"),
        ("a: *b\n", ", line 1: found undefined alias 'b'"),
        ("a: !!python/object:os.system x\n", ", line 1: could not determine a constructor"),
        ("a: &x [*x]\n", ": Circular reference"),
        (BOMB, ": with its aliases it has more than 1000000 values"),
        ("a: .inf\n", ": Out of range float"),
        ("a: \a\n", ": unacceptable character"),
        (b"a: \xff\n", ": not UTF-8 text"),
        ("- 1\n", ": is no Kubernetes object"),
        ("a: 1\n", ": is no Kubernetes object"),
        (POD + "---\nkind: Pod\n", ", document 2: is no Kubernetes object"),
        ("apiVersion: v1\nkind: Pod\n", ": is no Kubernetes object"),
        ("apiVersion: v1\nkind: List\nitems: [1]\n", ", item 1: is no Kubernetes object"),
    ],
)
def test_what_is_no_manifest_is_named_with_its_place(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    with pytest.raises(ManifestError) as fault:
        read(tmp_path, text).named()
    assert str(fault.value).startswith(f"{tmp_path}/my.yaml{message}")


@pytest.mark.parametrize("name", ["absent.yaml", "."])
def test_what_is_no_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ManifestError, match=str(tmp_path / name)):
        manifests.read(tmp_path / name)


def test_values_are_those_that_kubectl_would_send(tmp_path: Path) -> None:
    text = POD + "data: {a: off, b: 2024-01-01, c: '30', d: 0.3, e: 0644, 1: one}\n"
    [item] = read(tmp_path, text).manifests
    wanted = {"a": False, "b": "2024-01-01", "c": "30", "d": 0.3, "e": 0o644, "1": "one"}
    assert item.document["data"] == wanted


def kinds(file: manifests.File) -> list[str]:
    return [item.title for item in file.manifests]


def pod(name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, **more}


def test_documents_begin_where_kubectl_sees_them(tmp_path: Path) -> None:
    parts = ["# only a comment\n", "--- \n", POD, "---\t# b\n", "---\n", POD, "---#c\n", "\n"]
    text = "\ufeff" + "".join(parts) + "--- # d\r\n" + POD.replace("\n", "\r\n") + "---"
    file = read(tmp_path, text)
    assert kinds(file) == ["Pod/a"] * 3
    assert [item.line("metadata.name") for item in file.manifests] == [5, 10, 16]
    assert [item.where.rpartition(", ")[2] for item in file.manifests] == [
        "document 1",
        "document 2",
        "document 3",
    ]
    assert file.rewritten({}) == text


def test_the_objects_of_a_json_file_are_read_however_they_stand(tmp_path: Path) -> None:
    first, second = pod("\U0001f600", note="a/b"), pod("b")
    escaped = json.dumps(first, indent="\t").replace("/", "\\/")
    text = f"\n{escaped}\n{json.dumps(second)}{json.dumps(second)}\n"
    file = read(tmp_path, text)
    assert [item.document for item in file.manifests] == [first, second, second]
    assert [item.line("metadata.name") for item in file.manifests] == [6, 10, 10]
    made = file.rewritten({file.manifests[1]: pod("c")})
    assert made.startswith(f"\n{escaped}")
    path = tmp_path / "made.json"
    path.write_text(made)
    assert [item.document for item in manifests.read(path).manifests] == [first, pod("c"), second]


@pytest.mark.parametrize("indent", [None, 4, "\t"])
def test_json_stays_json(tmp_path: Path, indent: int | str | None) -> None:
    [item] = (file := read(tmp_path, json.dumps(pod("a"), indent=indent) + "\n")).manifests
    made = pod("é", spec={})
    assert file.rewritten({item: made}) == json.dumps(made, indent=indent) + "\n"


def test_the_items_of_a_typed_list_have_its_kind(tmp_path: Path) -> None:
    text = "apiVersion: apps/v1\nkind: DeploymentList\nitems:\n- metadata: {name: a}\n"
    file = read(tmp_path, text)
    [item] = file.manifests
    assert item.document == {
        "metadata": {"name": "a"},
        "apiVersion": "apps/v1",
        "kind": "Deployment",
    }
    made = file.rewritten({item: {**item.document, "spec": {}}})
    assert read(tmp_path, made).manifests[0].document["spec"] == {}


def test_a_functions_input_is_a_list_of_resources(tmp_path: Path) -> None:
    text = f"""\
apiVersion: config.kubernetes.io/v1
kind: ResourceList
items:
- {json.dumps(pod("a"))}
# the second
- apiVersion: v1
  kind: Pod  # b
functionConfig:
  apiVersion: v1
  kind: Pod
"""
    file = read(tmp_path, text)
    assert kinds(file) == ["Pod/a", "Pod"]
    changed = {**file.manifests[1].document, "spec": {"x": 1}}
    wanted = text.replace("# b\n", "# b\n  spec:\n    x: 1\n")
    assert file.rewritten({file.manifests[1]: changed}) == wanted


@pytest.mark.parametrize("text", ["", "\n", "# a\n", "---\n---\n", "~\n", "\ufeff"])
def test_a_file_without_documents_is_no_fault(tmp_path: Path, text: str) -> None:
    file = read(tmp_path, text).named()
    assert (file.manifests, file.others, file.rewritten({})) == ((), (), text)


def test_what_is_not_looked_into_may_be_anything(tmp_path: Path) -> None:
    text = "a: [\n---\n" + POD + "---\na: 1\na: 2\n"
    (tmp_path / "my.yaml").write_text(text)
    file = manifests.read(tmp_path / "my.yaml", "Pod")
    assert [item.where.rpartition(", ")[2] for item in file.manifests] == ["document 2"]
    assert file.rewritten({}) == text


LINES = """\
apiVersion: v1
kind: Pod
metadata:
  name: a
  annotations:
    milligpu.io/gpu: 300m
base: &base
  limits: {gpu: 1}
spec:
  containers:
    - name: a
    - resources:
        <<: *base
        limits:
          cpu: 1
    -
      resources: *base
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", 1),
        ("metadata.annotations[milligpu.io/gpu]", 6),
        ("metadata.annotations[other]", 5),
        ("metadata.labels[x]", 3),
        ("spec.containers[0].name", 11),
        ("spec.containers[0].resources.limits[gpu]", 11),
        ("spec.containers[1].resources", 12),
        ("spec.containers[1].resources.limits[cpu]", 15),
        ("spec.containers[2].resources.limits[gpu]", 8),
        ("spec.containers[2].env[0]", 17),
        ("spec.containers[3]", 10),
        ("spec.containers", 10),
        ("kind.x[0]", 2),
    ],
)
def test_a_field_path_leads_to_its_line(tmp_path: Path, path: str, line: int) -> None:
    for before in ("", "# 1\n---\n"):
        [item] = read(tmp_path, before + LINES).manifests
        assert item.line(path) == line + before.count("\n")


@pytest.mark.parametrize("end", ["\n", ""])
def test_documents_that_do_not_change_stay_as_they_are(tmp_path: Path, end: str) -> None:
    odd = "metadata:   {name: 'b' }  # odd\nkind:  Pod\napiVersion:\tv1\nx: 0644\n"
    text = f"# top\n---\n{odd}...\n--- # 2\n{POD}---\n{odd}".removesuffix("\n") + end
    file = read(tmp_path, text)
    changed = {**file.manifests[1].document, "spec": {}}
    assert file.rewritten({file.manifests[1]: changed}) == text.replace(POD, f"{POD}spec: {{}}\n")


def test_variables_take_a_line_each_and_containers_do_not() -> None:
    container = {"name": "m", "image": "i", "env": [{"name": "A", "value": "off"}]}
    document = {"spec": {"containers": [{"name": "x", "image": "z"}, container]}}
    assert kubeyaml.dump(document).splitlines() == [
        "spec:",
        "  containers:",
        "    - name: x",
        "      image: z",
        "    - name: m",
        "      image: i",
        "      env:",
        "        - {name: A, value: 'off'}",
    ]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters(codec="ascii", exclude_categories=["Cc"]))
    | st.sampled_from(["off", "30", "1e3", "300m", "null", "~", "a: b", "# c", "", "1:30", "é"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "on", "containers", "1"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["a", "spec", "no"]), json_values, min_size=1))
def test_what_is_dumped_reads_back_as_it_was(document: dict[str, Any]) -> None:
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)
    assert yaml.load(kubeyaml.dump(document)) == document
