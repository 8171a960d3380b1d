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
    def pod(name: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}

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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Pod\n  metadata: {}\n", ", line 2: mapping values are not allowed here"),
        (POD + "---\na: [1,\n", ", line 6: expected the node content"),
        (POD + "metadata: {}\n", ', line 4: found duplicate key "metadata"'),
        ("x: {{ .Values.gpu }}\n", ", line 1: found unhashable key"),
        ("a: *b\n", ", line 1: found undefined alias 'b'"),
        ("a: !!python/object:os.system x\n", ", line 1: could not determine a constructor"),
        ("a: &x [*x]\n", ": Circular reference"),
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


@pytest.mark.parametrize(
    ("comment", "caption"),
    [
        ("", ""),
        ("# One card,\n#   three models.\n", "One card, three models."),
        ("# a\n# b\n# c\n# d\n", ""),
        ("---\n# not the first thing\n", ""),
    ],
)
def test_a_short_first_comment_is_the_caption(tmp_path: Path, comment: str, caption: str) -> None:
    assert read(tmp_path, comment + POD).caption == caption


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
