"""The page on symptoms shows only messages that a test has seen, and all of those.

Those of Kubernetes, and of us where Kubernetes has a hand in it, are seen on a real API server or a
real node. Here are the ones that our programs write into their own logs, and the kubelet's copies
of what the plugin refuses.
"""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

import certs.config
from plugin import allocation
from plugin.allocation import RefusedError
from tests.cluster.symptoms import ELSEWHERE, named, page, shown, symptom
from tests.documents import ROOT, code, rows
from vgpu import settings, slots
from vgpu.slots import Whole
from webhook.config import Config
from webhook.tls import Certificate

FILES = [
    ROOT / "tests" / name
    for name in (
        "cluster/test_symptoms.py",
        "cluster/test_symptoms_away.py",
        "cluster/test_node_symptoms.py",
        "contract/test_symptoms.py",
    )
]
WRITTEN = {
    "plugin/node.py": [symptom("the node is new to us, and another plugin may want to list it")],
    "plugin/resources.py": [symptom("... is not well: it needs a reset")],
    "plugin/inventory.py": [
        symptom("a simulated inventory is refused beside real cards; ..."),
    ],
    "plugin/http.py": [symptom("cannot listen for HTTP on ")],
    "plugin/session.py": [symptom("waiting for another plugin to end")],
    "plugin/watch.py": [symptom("pods not listed")],
    "webhook/tls.py": [symptom("waiting for the certificate"), symptom("certificate unusable")],
    "certs/plan.py": [symptom("there is no webhook configuration yet")],
    "certs/cluster.py": [
        symptom("the API server refuses: "),
        symptom("the API server does not answer: "),
    ],
}
"""Lines of logs, by the file that writes them."""


def test_every_message_is_seen_by_a_test_and_every_test_is_about_one() -> None:
    seen = set[str]().union(*map(named, FILES))
    assert len(shown()) == len(set(shown())), "a message stands twice"
    assert seen == set(shown())


@pytest.mark.parametrize("file", WRITTEN)
def test_lines_of_a_log_are_those_of_the_program(file: str) -> None:
    # What is filled in stands in braces there, and as `...` or as an example on the page.
    text = re.sub(r"\{[^{}]*\}", "it needs a reset", (ROOT / file).read_text())
    assert all(each.search(text) for each in WRITTEN[file])


def test_refusals_of_the_plugin_are_its_own() -> None:
    whole, thirty = Whole("GPU-1f2e"), slots.of_card("GPU-1f2e")[:30]
    with pytest.raises(RefusedError) as first:
        allocation.unshared([whole], {whole.card: set(map(str, thirty))})
    assert symptom("... as a whole, but 30 of its slots are in use").fullmatch(str(first.value))
    with pytest.raises(RefusedError) as second:
        allocation.one_card(thirty, {whole.card: {str(whole)}})
    message = symptom("30 slots of ..., which another container has whole")
    assert message.fullmatch(str(second.value))


def test_bad_settings_are_named() -> None:
    with pytest.raises(settings.SettingsError) as fault:
        settings.read(Config, {"MILLIGPU_PORT": "x"})
    assert symptom("bad settings:").search(str(fault.value))


def test_a_life_that_is_too_short_is_named() -> None:
    with pytest.raises(settings.SettingsError) as fault:
        settings.read(certs.config.Config, {"MILLIGPU_LEAF_LIFE": "10s"})
    assert symptom("is too short, it must be at least").search(str(fault.value))


def test_a_certificate_that_has_ended_is_told(tmp_path: Path) -> None:
    ready, said = Certificate(tmp_path).state(datetime.now(UTC))
    message = symptom(
        "not ready: the served certificate is valid from ... to ..., and here it is ..."
    )
    assert not ready
    assert message.fullmatch(said)


def test_what_was_not_tried_says_so_and_is_nothing_that_was() -> None:
    table = rows(page(), ELSEWHERE)
    others = {each for row in table for each in code(row[0])}
    assert others
    assert others.isdisjoint(shown())
    assert "No GPU was here" in page().split(f"\n## {ELSEWHERE}\n")[1]
