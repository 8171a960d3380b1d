"""The environment of a pod with a share (design sections 2 to 4)."""

from typing import Any

import pytest

from tests.unit.webhook.objects import (
    COUNT,
    FORMS,
    PLACES,
    TEMPLATES,
    WHOLE,
    at_place,
    container,
    create,
    created,
    env,
    holding,
    named,
    pod,
    sent,
)
from webhook.pod import Json

FRACTION = "PER_PROCESS_GPU_MEMORY_FRACTION"
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
FROM_SECRET = {"secretKeyRef": {"name": "s", "key": "k"}}


def entries(*pairs: tuple[str, Any]) -> list[Json]:
    """Text becomes a value, an object comes from elsewhere."""
    return [
        {"name": name, "value" if isinstance(value, str) else "valueFrom": value}
        for name, value in pairs
    ]


def sharing(*pairs: tuple[str, Any], ask: str = "300m", **fields: Any) -> Json:
    if pairs:
        fields["env"] = entries(*pairs)
    return container(limits={"gpu": ask}, **fields)


# The memory fraction.


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("ask", "value"),
    [("300m", "0.3"), ("333m", "0.34"), ("1m", "0.01"), ("500m", "0.5"), ("999m", "1")],
)
def test_a_share_is_told_as_a_fraction(ask: str, value: str, form: str, place: str) -> None:
    """B87: a JSON string, a plain decimal."""
    made = created(FORMS[form](at_place(place, sharing(ask=ask))))
    assert named(made)["env"] == [{"name": FRACTION, "value": value}]


@pytest.mark.parametrize("empty", [[], None])
def test_an_empty_environment_is_filled(empty: Any) -> None:
    """B04: no list, an empty one, null."""
    made = created(pod(container(limits={"gpu": "300m"}, env=empty)))
    assert env(named(made)) == {FRACTION: "0.3"}


@pytest.mark.parametrize("own", ["0.3", "0.30", "0.25", ".1", "3e-1", "0.0001", "+0.3"])
def test_a_users_fraction_within_the_share_stays(own: str) -> None:
    outcome = create(sent(pod(sharing((FRACTION, own)))))
    assert env(named(outcome.object)) == {FRACTION: own}
    assert not any(FRACTION in text for text in outcome.warnings)


@pytest.mark.parametrize(
    "own",
    [
        *("0.31", "0.9", "1", "0", "0.0", "-0.1", "", " ", "lots", "nan", "inf", "30%", "300m"),
        *(
            "\N{ARABIC-INDIC DIGIT ZERO}.1",
            "0.3 ",
            " 0.3",
            "0_1",
            "0x0",
            "1Ki",
            "$(OTHER)",
            FROM_SECRET,
        ),
    ],
    ids=ascii,
)
def test_another_fraction_is_replaced_with_a_warning(own: Any) -> None:
    """B62: a fraction that does not match the share."""
    outcome = create(sent(pod(sharing(("A", "1"), (FRACTION, own), ("B", "2")))))
    assert named(outcome.object)["env"] == entries(("A", "1"), (FRACTION, "0.3"), ("B", "2"))
    (warning,) = (text for text in outcome.warnings if FRACTION in text)
    assert "replaced by 0.3" in warning
    assert "main" in warning


def test_one_of_several_fractions_is_kept() -> None:
    outcome = create(pod(sharing((FRACTION, "0.1"), ("A", "1"), (FRACTION, "0.9"))))
    assert named(outcome.object)["env"] == entries((FRACTION, "0.3"), ("A", "1"))


def test_a_users_environment_survives_in_its_order() -> None:
    """B41: members are added, never a list replaced."""
    own = [("NB_PREFIX", "/u/x"), ("SECRET", FROM_SECRET), ("EMPTY", ""), ("LAST", "$(NB_PREFIX)")]
    made = created(sent(pod(sharing(*own))))
    assert named(made)["env"] == entries(*own, (FRACTION, "0.3"))


# Reserved variables.

RESERVED = (
    VISIBLE,
    "CUDA_VISIBLE_DEVICES",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "NVIDIA_GPU_MEMORY_LIMIT",
    "MILLIGPU_SHARE",
    "MILLIGPU_LATER",
)


@pytest.mark.parametrize("value", ["all", "", FROM_SECRET], ids=["text", "empty", "valueFrom"])
@pytest.mark.parametrize("name", RESERVED)
def test_a_reserved_variable_is_removed_with_a_warning(name: str, value: Any) -> None:
    body = sharing(("A", "1"), (name, value), ("B", "2"))
    for place in PLACES:
        outcome = create(sent(at_place(place, body)))
        made = named(outcome.object)
        assert made["env"] == entries(("A", "1"), ("B", "2"), (FRACTION, "0.3")), place
        assert any(name in text and "removed" in text for text in outcome.warnings)


def test_every_removed_variable_is_named() -> None:
    outcome = create(sent(pod(sharing(*((name, "x") for name in RESERVED[:3])))))
    (warning,) = (text for text in outcome.warnings if "removed" in text)
    assert ", ".join(RESERVED[:3]) in warning


def test_other_variables_of_nvidia_and_cuda_stay() -> None:
    own = [("NVIDIA_DRIVER_CAPABILITIES", "all"), ("CUDA_HOME", "/c"), ("TF_GPU_ALLOCATOR", "x")]
    made = created(sent(pod(sharing(*own))))
    assert named(made)["env"] == entries(*own, (FRACTION, "0.3"))


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_template_keeps_its_variables_and_the_warning_is_given_there(kind: str) -> None:
    """Design section 4: warnings go where a person reads them."""
    outcome = create(sent(holding(kind, pod(sharing((VISIBLE, "all"), (FRACTION, "0.9"))))))
    assert named(outcome.object)["env"] == entries((VISIBLE, "all"), (FRACTION, "0.9"))
    assert any(VISIBLE in text and "removed" in text for text in outcome.warnings)
    assert any("replaced by 0.3" in text for text in outcome.warnings)


def test_env_from_is_warned_about() -> None:
    source = [{"configMapRef": {"name": "settings"}}]
    outcome = create(sent(pod(sharing(envFrom=source), container("other", envFrom=source))))
    assert named(outcome.object)["envFrom"] == source
    (warning,) = (text for text in outcome.warnings if "envFrom" in text)
    assert "container main: envFrom cannot be seen into" in warning


def test_whole_cards_lose_reserved_variables_and_get_no_fraction() -> None:
    """Design section 1: what is said of a share holds for every grant, but for memory settings."""
    body = container(limits={"gpu": "1"}, env=entries((VISIBLE, "all"), (FRACTION, "0.9")))
    made = created(sent(pod(body)))
    assert named(made)["env"] == entries((FRACTION, "0.9"))


# `void`: the other containers see no card.


def beside(*others: Json, init: tuple[Json, ...] = (), **spec: Any) -> Json:
    return pod(container("share", {"gpu": "300m"}), *others, init=init, **spec)


@pytest.mark.parametrize("place", PLACES)
def test_a_container_without_a_gpu_sees_none(place: str) -> None:
    obj = at_place(place, container())
    obj["spec"]["containers"].append(container("share", {"gpu": "300m"}))
    outcome = create(sent(obj))
    assert named(outcome.object)["env"] == entries((VISIBLE, "void"))
    assert not any("void" in text for text in outcome.warnings)


@pytest.mark.parametrize("own", ["all", "0", "none", "", "GPU-1", FROM_SECRET], ids=str)
def test_a_value_of_its_own_is_replaced_with_a_warning(own: Any) -> None:
    body = container(env=entries(("A", "1"), (VISIBLE, own), ("B", "2")))
    outcome = create(sent(beside(body)))
    assert named(outcome.object)["env"] == entries(("A", "1"), (VISIBLE, "void"), ("B", "2"))
    (warning,) = (text for text in outcome.warnings if "void" in text)
    assert f"container main: {VISIBLE} is set to void" in warning


def test_void_of_its_own_stays_without_a_warning() -> None:
    outcome = create(sent(beside(container(env=entries((VISIBLE, "void"))))))
    assert named(outcome.object)["env"] == entries((VISIBLE, "void"))
    assert not any("void" in text for text in outcome.warnings)


def test_other_variables_of_a_container_without_a_share_stay() -> None:
    own = [("CUDA_VISIBLE_DEVICES", "0"), ("MILLIGPU_X", "1"), (FRACTION, "0.9")]
    made = created(sent(beside(container(env=entries(*own)))))
    assert named(made)["env"] == entries(*own, (VISIBLE, "void"))


@pytest.mark.parametrize(
    "resources",
    [
        *({"limits": {key: "1"}} for key in ("nvidia.com/gpu", "nvidia.com/gpu.shared")),
        *({"limits": {key: "1"}} for key in ("nvidia.com/mig-1g.5gb", "amd.com/gpu")),
        *({"limits": {key: "1"}} for key in ("gpu.intel.com/i915", "gpu.intel.com/xe")),
        *({"limits": {key: "1"}} for key in (COUNT, WHOLE)),
        {"claims": [{"name": "c"}]},
    ],
    ids=str,
)
def test_a_container_with_a_gpu_of_its_own_is_left_alone(resources: Json) -> None:
    made = created(sent(beside(container(resources=resources, env=entries(("A", "1"))))))
    assert VISIBLE not in env(named(made))


@pytest.mark.parametrize(
    "limits",
    [
        {"nvidia.com/gpu": "0"},
        {"gpu": "0"},
        {COUNT: "0"},
        {"nvidia.com/hostdev": "1"},
        {"nvidia.com/sriov_rdma_vf": "1"},
        {"cpu": "1"},
    ],
    ids=str,
)
def test_no_cards_and_other_devices_are_no_gpu(limits: Json) -> None:
    made = created(sent(beside(container(limits=limits))))
    assert env(named(made))[VISIBLE] == "void"


def test_void_holds_beside_whole_cards_too() -> None:
    obj = pod(container("whole", {"gpu": "2"}), container())
    made = created(sent(obj))
    assert env(named(made)) == {VISIBLE: "void"}


@pytest.mark.parametrize("limits", [None, {"nvidia.com/gpu": "1"}, {"gpu": "0"}, {COUNT: "0"}])
def test_a_pod_without_a_grant_is_not_meddled_with(limits: Json | None) -> None:
    obj = sent(pod(container("gpu", limits), container(env=entries((VISIBLE, "all")))))
    made = created(obj)
    assert named(made) == named(obj)
    assert made["spec"]["tolerations"] == obj["spec"]["tolerations"]


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_template_gets_no_void(kind: str) -> None:
    outcome = create(sent(holding(kind, beside(container(env=entries((VISIBLE, "all")))))))
    assert named(outcome.object)["env"] == entries((VISIBLE, "all"))
    assert any("is set to void" in text for text in outcome.warnings)


def test_ephemeral_containers_are_out_of_reach() -> None:
    debugger = {"name": "debug", "image": "busybox"}
    made = created(sent(beside(ephemeralContainers=[debugger])))
    assert made["spec"]["ephemeralContainers"] == [debugger]
