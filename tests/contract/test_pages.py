"""Pages with commands are true: what they tell to type gives what they show."""

from pathlib import Path

import pytest

from tests.contract.pages import Typed, fits, typed
from tests.documents import ROOT

PAGES = ["docs/how-to/check-manifests.md", "docs/how-to/custom-resources.md"]

TYPED_ELSEWHERE = {
    "docs/how-to/offline.md": "tests/integration/test_offline_tools.py",
    "docs/tutorial/first-share.md": "tests/cluster/test_node_tutorial.py",
}
"""Pages that need other programs, or a cluster, and the tests that type them."""


def test_every_session_is_typed_by_a_test() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    shown = {str(page.relative_to(ROOT)) for page in pages if "\n```console\n" in page.read_text()}
    assert shown == {*PAGES, *TYPED_ELSEWHERE}
    for page, test in TYPED_ELSEWHERE.items():
        assert Path(page).name in (ROOT / test).read_text()


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_tells_to_type_gives_what_it_shows(name: str, tmp_path: Path) -> None:
    done = list(typed(ROOT / name, tmp_path))
    assert done, "the page has no session"
    for each in done:
        assert each.got == each.shown, f"$ {each.command}"


def page(folder: Path, text: str) -> list[Typed]:
    path = folder / "page.md"
    path.write_text(text)
    return list(typed(path, folder))


def test_a_page_is_typed_from_top_to_bottom(tmp_path: Path) -> None:
    text = "```yaml\n# a.yaml\nx: 1\n```\n\n```console\n$ cat a.yaml; false\n# a.yaml\nx: 1\n"
    text += "$ echo $?\n1\n$ echo 'to the' \\\n>&2 error\nto the error\n$ true\n```\n"
    text += "```yaml\n# a.yaml\nx: 2\n```\n```console\n$ cat a.yaml\nwrong\n```\n```sh\n$ no\n```\n"
    done = page(tmp_path, text)
    assert [each.command for each in done][:2] == ["cat a.yaml; false", "echo $?"]
    assert [each.got == each.shown for each in done] == [True, True, True, True, False]
    assert done[-1].got == "# a.yaml\nx: 2\n"


def test_a_command_that_is_not_there_is_no_truth(tmp_path: Path) -> None:
    [only] = page(tmp_path, "```console\n$ no-such-command\n```\n")
    assert only.shown == ""
    assert "not found" in only.got


ONE = "SIM-a1d4c9f2-7b36-4e58-9c01-5f2e8d7a6b41"
OTHER = "SIM-b73e05a8-1c94-4d2f-8a6b-90c3f1e4d752"


@pytest.mark.parametrize(
    ("shown", "got"),
    [
        ("a  b\n", "a b\n"),
        ("first   1/1   21s\n", "first 1/1 2m7s\n"),
        ("node1   21s   v1.36.3\n", "node1   9s    v1.37.2\n"),
        ("model-86bcd7fd9f-8mtjl   0/1\n", "model-5d9c7b6f4-x2x7k 0/1\n"),
        (f"{ONE}\n{ONE}\n{OTHER}\n", f"{OTHER}\n{OTHER}\n{ONE}\n"),
        ("...\nlast\n", "last\n"),
        ("...\nlast\n", "one\ntwo\nlast\n"),
        ("first\n...\n", "first\nlast\n"),
    ],
)
def test_an_answer_may_differ_in_what_is_its_readers_own(shown: str, got: str) -> None:
    assert fits(shown, got)


@pytest.mark.parametrize(
    ("shown", "got"),
    [
        ("", "warning\n"),
        ("a\n", ""),
        ("a\n", "a\nb\n"),
        ("gpu: 300m\n", "gpu: 500m\n"),
        ("slots 0-29\n", "slots 0-28\n"),
        ("model-86bcd7fd9f-8mtjl   0/1\n", "other-86bcd7fd9f-8mtjl   0/1\n"),
        (f"{ONE}\n{ONE}\n", f"{ONE}\n{OTHER}\n"),
        ("...\nlast\n", "last\nmore\n"),
        ("a.c\n", "abc\n"),
    ],
)
def test_an_answer_may_differ_in_nothing_else(shown: str, got: str) -> None:
    assert not fits(shown, got)
