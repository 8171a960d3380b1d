"""Tolerations and the runtime class of a pod with a share (design section 4)."""

from typing import Any

import pytest

from tests.unit.webhook.objects import (
    NOT_READY,
    TEMPLATES,
    TOLERATION,
    WHOLE,
    container,
    created,
    holding,
    pod,
    sent,
)
from webhook.config import Config
from webhook.pod import Json

SHARING = container(limits={"gpu": "300m"})
MINE = {"key": "mine", "operator": "Equal", "value": "x", "effect": "NoSchedule"}


def tolerations(*own: Json, config: Config | None = None) -> Any:
    spec: Json = {"tolerations": list(own)} if own else {}
    return created(pod(SHARING, **spec), config)["spec"].get("tolerations")


def test_the_default_is_the_taint_that_gpu_nodes_have() -> None:
    assert tolerations() == [TOLERATION]


def test_a_users_own_stay_before_it() -> None:
    assert tolerations(MINE, *NOT_READY) == [MINE, *NOT_READY, TOLERATION]


@pytest.mark.parametrize(
    "own",
    [
        TOLERATION,
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"operator": "Exists"},
        {"operator": "Exists", "effect": "NoSchedule"},
        {"key": "", "operator": "Exists", "effect": ""},
    ],
    ids=str,
)
def test_one_that_covers_it_is_enough(own: Json) -> None:
    assert tolerations(own) == [own]


@pytest.mark.parametrize(
    "own",
    [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"},
        {**TOLERATION, "tolerationSeconds": 60},
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"},
        {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
        {"key": "nvidia.com", "operator": "Exists"},
        {"key": "nvidia.com/gpu", "operator": "Gt", "value": "1", "effect": "NoSchedule"},
    ],
    ids=str,
)
def test_one_that_covers_less_is_not(own: Json) -> None:
    assert tolerations(own) == [own, TOLERATION]


def test_an_equal_one_of_the_setting() -> None:
    config = Config(tolerations=({"key": "k", "value": "v", "effect": "NoSchedule"},))
    wanted = dict(config.tolerations[0])
    assert tolerations(config=config) == [wanted]
    assert tolerations({**wanted, "operator": "Equal"}, config=config) == [
        {**wanted, "operator": "Equal"}
    ]
    other = {**wanted, "value": "w"}
    assert tolerations(other, config=config) == [other, wanted]


def test_several_or_none_by_setting() -> None:
    more = {"key": "more", "operator": "Exists"}
    assert tolerations(config=Config(tolerations=(TOLERATION, more))) == [TOLERATION, more]
    assert tolerations(config=Config(tolerations=())) is None
    assert tolerations(MINE, config=Config(tolerations=())) == [MINE]


def runtime_class(own: str | None, setting: str) -> Any:
    spec: Json = {} if own is None else {"runtimeClassName": own}
    made = created(sent(pod(SHARING, **spec)), Config(runtime_class=setting))
    return made["spec"].get("runtimeClassName")


def test_the_runtime_class_is_added_where_there_is_none() -> None:
    assert runtime_class(None, "") is None
    assert runtime_class(None, "nvidia") == "nvidia"
    assert runtime_class("kata", "nvidia") == "kata"
    assert runtime_class("kata", "") == "kata"


CONFIG = Config(runtime_class="nvidia")


def test_a_pod_with_whole_cards_is_scheduled_like_one_with_a_share() -> None:
    for limits in ({"gpu": "1"}, {WHOLE: "2"}):
        made = created(sent(pod(container(limits=limits))), CONFIG)
        assert TOLERATION in made["spec"]["tolerations"]
        assert made["spec"]["runtimeClassName"] == "nvidia"


def test_a_pod_without_a_grant_is_scheduled_as_it_was() -> None:
    for limits in ({}, {"nvidia.com/gpu": "1"}, {"gpu": "0"}):
        made = created(sent(pod(container(limits=limits))), CONFIG)
        assert made["spec"]["tolerations"] == NOT_READY
        assert "runtimeClassName" not in made["spec"]


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_template_is_scheduled_as_it_was(kind: str) -> None:
    made = created(holding(kind, pod(SHARING)), CONFIG)
    assert "tolerations" not in str(made)
    assert "runtimeClassName" not in str(made)


def test_the_users_scheduling_survives() -> None:
    """B86: scheduler, affinity, spread and node selector are not ours."""
    spec: Json = {
        "schedulerName": "mine",
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}],
        "nodeSelector": {"a": "b"},
        "tolerations": [MINE],
        "priorityClassName": "high",
    }
    made = created(sent(pod(SHARING, **spec)))["spec"]
    assert made.pop("tolerations") == [MINE, *NOT_READY, TOLERATION]
    del spec["tolerations"]
    assert {key: made[key] for key in spec} == spec
