"""Turning back: what a translated object was, or what it is without us."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from milligpu import kubeyaml, revert
from milligpu.manifests import ManifestError
from milligpu.remarks import completed, creation
from milligpu.revert import reverted
from tests import strategies
from tests.unit.webhook import objects
from tests.unit.webhook.objects import (
    COUNT,
    KINDS,
    OFFICIAL,
    OUR_FLAG,
    TOLERATION,
    WHOLE,
    container,
    held,
    holding,
    pod,
)
from webhook.config import Config
from webhook.findings import Denied
from webhook.mutate import desired
from webhook.pod import Json

Captured = pytest.CaptureFixture[str]
FORMS = st.sampled_from(["ask", "whole", "none"])

DEPLOYMENT = """\
# three models
apiVersion: apps/v1
kind: Deployment
metadata:
  name: models
  namespace: team
spec:
  template:
    spec:
      containers:
      - name: a
        image: "x"   # odd
        resources:
          limits:
            milligpu.io/vgpu: '34'  # a third
            memory: 1Gi
          requests:
            milligpu.io/vgpu: '34'
"""
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: gpu}\n"
KUBECTL = {"kubectl.kubernetes.io/last-applied-configuration": '{"limits":{"milligpu.io/gpu":1}}'}


def made(document: Json) -> Json:
    """What the webhook makes of it; whatever it denies is no example."""
    try:
        return desired(creation(document), Config()).object
    except Denied:
        assume(False)
        raise


def containers(document: Json) -> list[Json]:
    return [*objects.containers(document)]


def granted(document: Json) -> list[Json]:
    """The grants of an object's containers, in limits, as numbers."""
    found = (item.get("resources", {}).get("limits") or {} for item in containers(document))
    return [{key: str(side[key]) for key in (COUNT, WHOLE) if side.get(key)} for side in found]


def of(document: Json, form: str = "ask", **config: Any) -> Json:
    return reverted(document, form, Config(**config))


@given(strategies.good_objects)
def test_an_ask_that_is_turned_back_is_made_the_same_again(document: Json) -> None:
    once = made(document)
    back = of(once)
    assert made(back) == once
    assert of(back) is back
    if document["kind"] != "Pod":
        assert not any(granted(back))


@given(strategies.objects)
def test_what_a_person_wrote_as_a_count_is_granted_again(document: Json) -> None:
    """A person may write it as a number, and without the request; else nothing is different."""
    once = made(document)
    assert granted(made(of(once))) == granted(once)


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for key in value for text in (key, *_texts(value[key]))]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    return [value] if isinstance(value, str) else []


@given(strategies.objects, FORMS)
def test_without_us_no_name_of_ours_is_left(document: Json, form: str) -> None:
    """But where a person wrote it: variables and arguments."""
    once = made(document)
    for item in containers(once):  # what the webhook takes out of pods, not of templates
        entries = [each for each in item.get("env") or [] if "MILLIGPU" not in each["name"]]
        item.update({key: value for key, value in [("env", entries)] if "env" in item})
        item["args"] = [each for each in item.get("args") or [] if each != OUR_FLAG]
        item["command"] = [each for each in item.get("command") or [] if each != OUR_FLAG]
    back = of(made(once), "none")
    assert not [text for text in _texts(back) if "milligpu" in text.lower()]
    assert "gpu" not in _texts([each.get("resources") for each in containers(back)])
    assert of(back, form) is back, "there is nothing more to turn back"


@given(strategies.objects)
def test_whole_cards_take_the_place_of_all_grants(document: Json) -> None:
    once = made(document)
    back = of(once, "whole")
    decided = [(item.get("resources") or {}).get("limits") or {} for item in containers(back)]
    for side, grant in zip(decided, granted(once), strict=True):
        if grant and set(grant.values()) != {"0"}:
            assert side["nvidia.com/gpu"] == grant.get(WHOLE, "1")
    assert not [key for side in decided for key in side if key.startswith(("milligpu.io", "gpu"))]


@given(strategies.objects, FORMS)
def test_the_argument_is_not_changed(document: Json, form: str) -> None:
    once = made(document)
    before = json.dumps(once)
    of(once, form)
    assert json.dumps(once) == before


@pytest.mark.parametrize("form", ["ask", "whole", "none"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_ours_is_left_alone(kind: str, form: str) -> None:
    alone = holding(kind, pod(container(limits={"nvidia.com/gpu": 1}, env=[]), annotations=KUBECTL))
    assert of(alone, form) is alone


@pytest.mark.parametrize(
    ("count", "ask"), [("1", "10m"), ("30", "300m"), (30, "300m"), ("99", "990m"), ("100", "999m")]
)
def test_slots_become_an_ask_in_thousandths(count: Any, ask: str) -> None:
    template = holding("Deployment", pod(container(limits={COUNT: count, "cpu": 1})))
    [item] = containers(of(template))
    assert item["resources"]["limits"] == {"cpu": 1, "gpu": ask}
    assert granted(made(of(template))) == [{COUNT: str(count)}]


def test_whole_cards_become_a_whole_ask() -> None:
    template = holding("Job", pod(container(limits={WHOLE: "2"}, requests={WHOLE: "2"})))
    [item] = containers(of(template))
    assert item["resources"] == {"limits": {"gpu": "2"}}


@pytest.mark.parametrize(
    ("ask", "back"),
    [("333m", {"gpu": "333m"}), ("33.3%", {"gpu": "333m"}), ("33.33%", {COUNT: "34"})],
)
def test_beside_an_annotated_ask_stands_none_that_differs(ask: str, back: Json) -> None:
    """The API server rounds a quantity up to thousandths, and two different asks are denied."""
    template = holding(
        "Deployment", pod(container(limits={COUNT: "34"}), annotations={"milligpu.io/gpu": ask})
    )
    assert containers(of(template))[0]["resources"]["limits"] == back
    assert granted(made(of(template))) == [{COUNT: "34"}]


SERVING = pod(
    container("m", limits={"gpu": "300m"}, image=OFFICIAL, args=["--port=1"]),
    container("s", env=[{"name": "A", "value": "b"}]),
    tolerations=[{"key": "k", "operator": "Exists"}],
)


def test_a_pod_loses_what_was_added_to_it() -> None:
    assert of(made(SERVING)) == SERVING
    bare = of(made(SERVING), "none")
    assert bare["metadata"] == SERVING["metadata"]
    assert [each.get("resources") for each in containers(bare)] == [{}, None]
    assert [each.get("args") for each in containers(bare)] == [["--port=1"], None]
    assert bare["spec"]["tolerations"] == SERVING["spec"]["tolerations"]
    [whole, _] = containers(of(made(SERVING), "whole"))
    assert whole["resources"] == {side: {"nvidia.com/gpu": "1"} for side in ("limits", "requests")}


def test_what_a_whole_card_needs_as_much_stays() -> None:
    """The webhook would bring it back beside a share, so nobody can know whose it is."""
    config = Config(runtime_class="nvidia")
    mine = pod(
        container(limits={"gpu": "300m"}), tolerations=[TOLERATION], runtimeClassName="nvidia"
    )
    once = desired(creation(mine), config).object
    spec = reverted(once, "whole", config)["spec"]
    assert (spec["tolerations"], spec["runtimeClassName"]) == ([TOLERATION], "nvidia")
    spec = reverted(once, "none", config)["spec"]
    assert "tolerations" not in spec
    assert "runtimeClassName" not in spec


def test_what_hides_cards_stays_where_there_is_no_webhook() -> None:
    """Whosever it is: without it an image may ask for all cards."""
    hidden = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    mine = pod(container("m", limits={"gpu": "300m"}), container("s", env=hidden))
    for form in ("whole", "none"):
        assert containers(of(made(mine), form))[1]["env"] == hidden
    bare = pod(container("m", limits={"gpu": "300m"}), container("s"))
    assert of(made(bare)) == bare
    assert of(made(mine)) == bare, "the webhook brings it back"


def test_a_large_pod_is_turned_back_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is completed for what may be ours, not for each of its variables and arguments."""
    asked = []

    def counted(*args: Any) -> Json:
        asked.append(args)
        return completed(*args)

    monkeypatch.setattr(revert, "completed", counted)
    env = [{"name": f"V{number}", "value": "x"} for number in range(500)]
    alone = container("s", env=env, args=["a"] * 500)
    of(pod(alone, container(limits={"cpu": "3"})), "none")
    assert asked == []
    shared = pod(container("m", limits={"gpu": "300m"}, image=OFFICIAL) | {"env": env}, alone)
    assert of(made(shared)) == shared
    assert len(asked) < 30


@pytest.mark.parametrize(
    "own",
    [
        {"env": [{"name": "PER_PROCESS_GPU_MEMORY_FRACTION", "value": "0.2"}]},
        {"args": ["--per_process_gpu_memory_fraction=0.1", "--x"]},
        {"resources": {"limits": {"gpu": "300m", "cpu": "3"}, "requests": {"cpu": "1"}}},
    ],
)
def test_a_pod_keeps_what_is_its_own(own: Json) -> None:
    mine = pod(container("m", limits={"gpu": "300m"}, image=OFFICIAL) | own)
    back = containers(of(made(mine)))[0]
    assert {key: back[key] for key in own} == own


def test_a_pod_that_was_changed_since_keeps_what_nobody_can_know() -> None:
    later = made(SERVING)
    later["spec"]["containers"][0]["env"][0]["value"] = "0.9"
    assert containers(of(later, "none"))[0]["env"] == [
        {"name": "PER_PROCESS_GPU_MEMORY_FRACTION", "value": "0.9"}
    ]


def test_settings_say_what_was_added() -> None:
    config = Config(runtime_class="nvidia", tolerations=({**TOLERATION, "key": "mine"},))
    once = desired(creation(SERVING), config).object
    assert reverted(once, "ask", config) == SERVING
    assert of(once, "none")["spec"]["runtimeClassName"] == "nvidia"


def test_annotations_of_ours_go_from_everywhere() -> None:
    noted = {"milligpu.io/gpu": "300m", "milligpu.io/later": "x", "a/b": "c"}
    cron = holding("CronJob", pod(container(), annotations=noted))
    cron["metadata"]["annotations"] = dict(noted)
    cron["spec"]["jobTemplate"]["metadata"] = {"annotations": {"milligpu.io/gpu": "300m"}}
    assert of(cron) is cron, "they are the asks"
    for form in ("whole", "none"):
        back = of(cron, form)
        assert back["metadata"]["annotations"] == {"a/b": "c"}
        assert "metadata" not in back["spec"]["jobTemplate"]
        assert held(back)["metadata"]["annotations"] == {"a/b": "c"}
    [item] = containers(of(cron, "whole"))
    assert item["resources"]["limits"] == {"nvidia.com/gpu": "1"}


def file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "my.yaml"
    path.write_text(text)
    return path


REQUESTED = "          requests:\n            milligpu.io/vgpu: '34'\n"


@pytest.mark.parametrize(
    ("form", "limit", "requests"),
    [
        ("ask", "gpu: 340m", ""),
        (
            "whole",
            "nvidia.com/gpu: '1'",
            REQUESTED.replace("milligpu.io/vgpu: '34'", "nvidia.com/gpu: '1'"),
        ),
    ],
)
def test_only_the_lines_that_change_are_others(
    tmp_path: Path, capfd: Captured, form: str, limit: str, requests: str
) -> None:
    path = file(tmp_path, f"---\n{SERVICE}---\n{DEPLOYMENT}--- # end\n# gpu\n")
    assert revert.main([path], form, False) == 0
    out, err = capfd.readouterr()
    wanted = DEPLOYMENT.replace(REQUESTED, requests).replace(
        "milligpu.io/vgpu: '34'  #", f"{limit}  #"
    )
    assert out == f"---\n{SERVICE}---\n{wanted}--- # end\n# gpu\n"
    assert err == f"{path}:7: Deployment/models in team: turned back\n"


def test_only_what_changes_can_be_printed(tmp_path: Path, capfd: Captured) -> None:
    path = file(tmp_path, f"{SERVICE}---\n{DEPLOYMENT}")
    assert revert.main([path], "none", True) == 0
    out, _ = capfd.readouterr()
    assert kubeyaml.load(out)[1]["kind"] == "Deployment"
    assert "milligpu" not in out
    assert revert.main([file(tmp_path, SERVICE)], "none", True) == 0
    assert capfd.readouterr() == ("", "")


QUOTA = """\
apiVersion: v1
kind: ResourceQuota
metadata: {name: q}
spec: {hard: {requests.milligpu.io/vgpu: 100}}
"""
CUSTOM = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: j}
spec:
  pytorchReplicaSpecs:
    Worker:
      template:
        spec:
          containers:
          - name: pytorch
            args: [$(MILLIGPU_SLOTS)]
            resources: {limits: {milligpu.io/vgpu: '30'}}
"""


def test_what_is_left_is_said(
    tmp_path: Path, capfd: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(tmp_path, f"{QUOTA}---\n{CUSTOM}")
    assert revert.main([path], "whole", False) == 0
    out, err = capfd.readouterr()
    assert out == f"{QUOTA}---\n{CUSTOM}"
    assert err.splitlines() == [
        f"{path}:1: warning: ResourceQuota/q: still holds milligpu.io/vgpu",
        f"{path}:6: warning: PyTorchJob/j: still holds MILLIGPU_SLOTS, milligpu.io/vgpu",
    ]
    template = {"group": "kubeflow.org", "version": "v1", "resource": "pytorchjobs"}
    template["path"] = "spec.pytorchReplicaSpecs.*.template"
    monkeypatch.setenv("MILLIGPU_TEMPLATE_PATHS", json.dumps([template]))
    assert revert.main([path], "whole", True) == 0
    out, err = capfd.readouterr()
    assert "nvidia.com/gpu: '1'" in out
    assert err.splitlines()[1:] == [
        f"{path}:6: PyTorchJob/j: turned back",
        f"{path}:6: warning: PyTorchJob/j: still holds MILLIGPU_SLOTS",
    ]
    assert revert.main([path], "ask", True) == 0
    assert "gpu: 300m" in capfd.readouterr().out


@pytest.mark.parametrize("form", ["ask", "whole"])
def test_of_what_nobody_can_read_nothing_is_printed(
    tmp_path: Path, capfd: Captured, form: str
) -> None:
    path = file(tmp_path, f"{SERVICE}---\n{DEPLOYMENT}".replace("'34'", "'150'"))
    assert revert.main([path], form, False) == 1
    out, err = capfd.readouterr()
    at = "spec.template.spec.containers[0].resources.limits[milligpu.io/vgpu]"
    assert out == ""
    assert f"{path}:19: error: Deployment/models: {at}: 150 is not allowed" in err
    assert err.splitlines()[-1] == "milligpu revert: nothing is printed, for there are errors"
    assert revert.main([path], "none", False) == 0, "it need not be read for that"
    assert "milligpu" not in capfd.readouterr().out


def test_a_file_that_cannot_be_read_ends_it(tmp_path: Path, capfd: Captured) -> None:
    with pytest.raises(ManifestError, match=r"my.yaml, line 2: "):
        revert.main([file(tmp_path, DEPLOYMENT), file(tmp_path, "gpu: [\n")], "ask", False)
    assert capfd.readouterr().out == ""


@given(strategies.objects, FORMS, st.sampled_from(["yaml", "json"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_printed_is_what_was_turned_back(
    monkeypatch: pytest.MonkeyPatch, capfd: Captured, document: Json, form: str, text: str
) -> None:
    once = made(document)
    written = kubeyaml.dump(once) if text == "yaml" else json.dumps(once)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(written.encode())))
    assert revert.main([Path("-")], form, False) == 0
    out = capfd.readouterr().out
    assert kubeyaml.load(out)[1] == of(once, form)
    if of(once, form) is once:
        assert out == written
