"""The page on how a share travels, and its picture, show what the programs make of `gpu: 300m`."""

import html
import json
import re
from typing import Any

from milligpu.remarks import creation
from plugin import edits
from plugin.config import Config as Plugin
from plugin.gpu import MIB, Gpu
from tests.documents import ROOT
from tests.unit.webhook.objects import container, holding, pod
from vgpu import names, slots
from webhook.config import Config
from webhook.mutate import desired
from webhook.pod import Json

PAGE = (ROOT / "docs/explanation/share.md").read_text()
PICTURE = (ROOT / "docs/explanation/share.svg").read_text()
SHOWN = [html.unescape(line) for line in re.findall(r'class="code"[^>]*>([^<]*)<', PICTURE)]
CARD = Gpu("GPU-1f2e", 0, 0, "Tesla T4", 15360 * MIB)


def first(spec: Any) -> Json:
    found: Json = spec["containers"][0]
    return found


def test_the_picture_shows_what_is_stored() -> None:
    written = holding("Deployment", pod(container(limits={"gpu": "300m"})))
    workload = desired(creation(written), Config()).object
    template = workload["spec"]["template"]["spec"]
    made = desired(creation(pod(first(template))), Config()).object
    limits, [variable] = first(made["spec"])["resources"]["limits"], first(made["spec"])["env"]
    given = edits.share(CARD, 30, edits.Handing(Plugin())).envs
    thirty = slots.of_card(CARD.uuid)[:30]
    shown = SHOWN
    assert shown == [
        "gpu: 300m",
        *(f"{name}: {count}" for name, count in first(template)["resources"]["limits"].items()),
        f"{names.COUNT}: {limits[names.COUNT]}, cpu: {limits[names.CPU]}",
        f"{variable['name']}={variable['value']}",
        made["metadata"]["annotations"][names.ANNOTATION_SHARE],
        f"{thirty[0]} ... {thirty[-1]}",
        f"{names.ENV_MEMORY_MIB}={given[names.ENV_MEMORY_MIB]} ...",
    ]
    assert json.loads(shown[4]) == {"main": {"slots": 30, "share": "0.3"}}
    assert f"`{variable['value']}`" in PAGE
    assert f"`{given[names.ENV_MEMORY_FRACTION]}`" in PAGE


def test_a_card_with_slots_is_looked_at_as_often_as_the_page_says() -> None:
    assert Plugin().poll_seconds == 5
    assert "every five seconds" in PAGE
