"""The page on whole cards says what the webhook and the plugin do."""

import re
from typing import Any

import pytest
from ruamel.yaml import YAML

from milligpu.remarks import creation
from plugin import allocation, edits
from plugin.allocation import RefusedError
from plugin.config import Config as Plugin
from plugin.gpu import MIB, Gpu
from plugin.offer import Card, Offer
from tests.documents import ROOT, blocks, code, rows
from tests.unit.webhook.objects import copied
from vgpu import names, settings, slots
from vgpu.slots import Whole
from webhook.config import Config
from webhook.findings import Denied
from webhook.mutate import desired
from webhook.pod import containers

PAGE = (ROOT / "docs/how-to/whole-cards.md").read_text()
YAMLS: list[Any] = [YAML(typ="safe", pure=True).load(block) for block in blocks(PAGE, "yaml")]


def test_the_example_and_its_other_forms_become_cards() -> None:
    pod = YAMLS[0]
    [body] = pod["spec"]["containers"]
    limits = [body["resources"]["limits"], {}, {}, {names.WHOLE: 2}]
    for note, own in zip((None, "2", "trainer=2", None), limits, strict=True):
        assert note is None or f'"{note}"' in PAGE
        annotations = {names.ANNOTATION_ASK: note} if note else {}
        written = {
            **pod,
            "metadata": {"name": "p", "annotations": annotations},
            "spec": {"containers": [{**body, "resources": {"limits": own}}]},
        }
        [made] = containers(desired(creation(written), Config()).object, "")
        assert int(made.sides()[0][names.WHOLE]) == 2
    assert f"{names.WHOLE}: 2" in PAGE


def test_the_refusals_are_the_plugins() -> None:
    shown = re.findall(r"\n\n```\n(.*?)\n```", PAGE, re.DOTALL)[0].splitlines()
    whole, thirty = Whole("GPU-1f2e..."), slots.of_card("GPU-1f2e...")[:30]
    with pytest.raises(RefusedError) as first:
        allocation.unshared([whole], {whole.card: set(map(str, thirty))})
    with pytest.raises(RefusedError) as second:
        allocation.one_card(thirty, {whole.card: {str(whole)}})
    assert shown == [str(first.value), str(second.value)]


def test_the_variables_of_a_share_and_of_whole_cards() -> None:
    handing = edits.Handing(Plugin())
    gpus = [Gpu(f"GPU-{index}", index, index, "Tesla T4", 15360 * MIB) for index in (0, 1)]
    both = {names.ENV_VISIBLE_DEVICES, names.ENV_GPU_UUID}
    whole, share = edits.whole(gpus, handing).envs, edits.share(gpus[0], 30, handing).envs
    assert whole == dict.fromkeys(both, "GPU-0,GPU-1")
    rest = next(code(row[0]) for row in rows(PAGE) if names.ENV_SLOTS in row[0])
    assert {f"MILLIGPU{each.removeprefix('MILLIGPU')}" for each in rest} == share.keys() - both


def test_the_picture_counts_as_the_plugin_does() -> None:
    gpus = [Gpu(f"GPU-{index}", index, index, "Tesla T4", 15360 * MIB) for index in range(3)]
    held = {"GPU-0": {f"GPU-0::{slot}" for slot in range(30)}, "GPU-1": {"GPU-1::whole"}}
    offer = Offer(tuple(map(Card, gpus)), held)
    kinds = offer.vgpu, offer.pgpu
    cards = [
        tuple(
            sum(well for name, well in kind.items() if name.startswith(gpu.uuid)) for kind in kinds
        )
        for gpu in gpus
    ]
    picture = (ROOT / "docs/how-to/whole-cards.svg").read_text()
    numbers = [
        int(each) for each in re.findall(r"<text class=\"head middle\"[^>]*>(\d+)<", picture)
    ]
    shown = list(zip(numbers[::2], numbers[1::2], strict=True))
    assert shown == [*cards, tuple(sum(kind.values()) for kind in kinds)]


def test_a_share_of_another_card_is_another_amount() -> None:
    handing = edits.Handing(Plugin())
    table = rows(PAGE, "Cards of different memory on one node")
    assert len(table) == 2
    for card, amount in table:
        (usable,) = re.findall(r"[0-9]+", card)
        gpu = Gpu("GPU-0", 0, 0, "any", int(usable) * MIB)
        envs = edits.share(gpu, 30, handing).envs
        assert code(amount) == [envs[names.ENV_MEMORY_MIB]]


def test_the_settings_choose_cards_as_the_example_says() -> None:
    data = YAMLS[1]["data"]
    config = settings.read(Plugin, data)
    assert config.cards == ("Tesla T4", "NVIDIA L4")
    assert len(config.cards_except) == 1
    assert Plugin().placement == "packed"


def test_where_they_are_switched_off_the_denial_is_what_it_says() -> None:
    with pytest.raises(Denied) as denial:
        desired(creation(YAMLS[0]), settings.read(Config, {"MILLIGPU_WHOLE_CARDS": "false"}))
    (finding,) = denial.value.findings
    assert "whole cards are not served here" in finding.text
    assert "whole cards are not served here" in PAGE
    by_hand = copied(YAMLS[0])
    by_hand["spec"]["containers"][0]["resources"]["limits"] = {names.WHOLE: "1"}
    assert desired(creation(by_hand), Config(whole_cards=False)).object["kind"] == "Pod"
