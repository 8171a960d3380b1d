"""The same files, read by the real kubectl and by us. No cluster is needed."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from milligpu import manifests
from milligpu.manifests import ManifestError
from tests.cluster.tools import ensure

pytestmark = pytest.mark.timeout(900)  # the first run builds kubectl
HEAD = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\n"


@pytest.fixture(scope="module")
def kubectl() -> Path:
    return ensure(["kubectl"])["kubectl"]


def sent(kubectl: Path, path: Path) -> list[Any] | None:
    """What kubectl makes of a file's objects; None if it cannot read it."""
    # It has no command that only reads; this one writes an annotation into its own copy.
    command = [str(kubectl), "annotate", "--local", "-o=json", f"-f={path}", "x=y"]
    environ = {"HOME": str(path.parent), "KUBECONFIG": "/dev/null"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    decoder, rest, found = json.JSONDecoder(), done.stdout.strip(), []
    while rest:
        value, end = decoder.raw_decode(rest)
        assert value["metadata"].pop("annotations") == {"x": "y"}
        if not value["metadata"]:
            del value["metadata"]
        found.append(value)
        rest = rest[end:].strip()
    return found


def read(path: Path) -> list[Any] | None:
    try:
        file = manifests.read(path)
    except ManifestError:
        return None
    return [each.document for each in file.manifests]


WORDS = """\
off y N yes yES TRUE tRUE on oN 'off' null Null nULL ~ "" 2024-01-01 2024-01-01T00:00:00Z 1:30
0 -0 08 0644 0o644 0O17 0o9 0x1F 0X1f -0x1F 0x 0x_1 0b11 0B11 0b2 1_000 1__0 _1 1_ +1 00
1. .5 -.5e-3 0.30 1e3 1E5 1e+5 1e 1e+ .e1 . + 6e 1e400x 1._5 .5_0 = 9223372036854775807
-9223372036854775808 123456789012345678901234567890 !!str&a&1 !!int&"7" !!float&3
"""
FILES = {
    "words": HEAD + "v:\n" + "".join(f"- {word.replace('&', ' ')}\n" for word in WORDS.split()),
    "keys": HEAD + "v: {1: a, 2.5: b, off: c, 1e3: d, 0x10: e, 'null': f}\n",
    "texts": HEAD
    + "v: [\"\\x07\\u2028\\U0001f600\", 'it''s']\nw: >-\n  a\n  b\n\n  c\nx: |+\n  a\n\n",
    "anchors": HEAD + "v: [&x {p: 1, q: 2}, *x, {<<: *x, p: 3}, {<<: [*x, {p: 4, r: 5}]}]\n",
    "tabs": HEAD + "v:\t2\t# c\nw: [1,\t2\t]\n",
    "tab that indents": HEAD + "v:\n\t- 2\n",
    "line ends": (HEAD + "v: |\n  a\n  b\n").replace("\n", "\r\n"),
    "mark": "\ufeff" + HEAD,
    "separators": HEAD + "---\n# no document\n--- \n---\t# c\n" + HEAD + "---#d\n---\n" + HEAD,
    "end mark": HEAD + "...\n---\n" + HEAD,
    "no separator": HEAD + "---x: 1\n" + HEAD,
    "json": json.dumps({"apiVersion": "v1", "kind": "Thing", "v": "\U0001f600/"}, indent="\t"),
    "json stream": '{"apiVersion":"v1","kind":"A"}\n {"apiVersion":"v1","kind":"B"}',
    "list": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: A\n",
    "typed list": "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n  spec: {}\n",
    "undefined alias": HEAD + "v: *b\n",
    "alias in itself": HEAD + "v: &b [*b]\n",
    "infinite": HEAD + "v: .inf\n",
    "no number": HEAD + "v: .nan\n",
    "key that is a list": HEAD + "v: {[1]: 1}\n",
}


@pytest.mark.parametrize("name", FILES)
def test_we_read_what_kubectl_reads(tmp_path: Path, kubectl: Path, name: str) -> None:
    path = tmp_path / ("my.json" if "json" in name else "my.yaml")
    path.write_text(FILES[name], newline="")
    ours, theirs = read(path), sent(kubectl, path)
    assert json.dumps(ours, sort_keys=True) == json.dumps(theirs, sort_keys=True)


def test_a_key_that_is_there_twice_is_refused_though_kubectl_takes_the_last(
    tmp_path: Path, kubectl: Path
) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(HEAD + "v: {a: 1, a: 2}\n")
    assert sent(kubectl, path) is not None
    with pytest.raises(ManifestError, match=r'line 4: found duplicate key "a"$'):
        manifests.read(path)


def test_a_key_that_is_null_is_taken_though_kubectl_refuses_it(
    tmp_path: Path, kubectl: Path
) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(HEAD + "v: {~: 1}\n")
    assert sent(kubectl, path) is None
    assert [each.document["v"] for each in manifests.read(path).manifests] == [{"null": 1}]
