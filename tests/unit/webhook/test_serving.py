"""TensorFlow Serving gets its memory fraction as a flag (design section 4)."""

from typing import Any

import pytest

from tests.unit.webhook.objects import (
    COUNT,
    FLAG,
    OFFICIAL,
    OUR_FLAG,
    PLACES,
    TEMPLATES,
    at_place,
    container,
    create,
    created,
    holding,
    named,
    pod,
    sent,
)
from webhook.pod import Json

FRAMEWORK = "milligpu.io/framework"
SERVER = "tensorflow_model_server"
OTHER = "registry.example/model"


def serving(image: str = OFFICIAL, **fields: Any) -> Json:
    return container(limits={"gpu": "300m"}, image=image, **fields)


def limited(body: Json, **notes: str) -> tuple[Json, list[str]]:
    """Return the container as it is created, and the warnings about its memory."""
    outcome = create(sent(pod(body, annotations=notes)))
    assert outcome.allowed
    return named(outcome.object), [text for text in outcome.warnings if "CPU" not in text]


# How it is known.


@pytest.mark.parametrize(
    "image",
    [
        *("tensorflow/serving", "tensorflow/serving:latest", OFFICIAL),
        *("docker.io/tensorflow/serving:2.13.1-gpu", "localhost:5000/tensorflow/serving"),
        *("localhost:5000/mirror/tensorflow/serving:1", "tensorflow/serving@sha256:0a1b"),
        "registry.example:443/tensorflow/serving:2.16@sha256:0a1b",
    ],
)
def test_it_is_known_by_its_image(image: str) -> None:
    body, said = limited(serving(image))
    assert (body["args"], said) == ([OUR_FLAG], [])


@pytest.mark.parametrize(
    "image",
    [
        *("tensorflow/tensorflow:2.16.1-gpu", "tensorflow/serving-gpu", "mytensorflow/serving"),
        *("tensorflow/serving/sidecar", "serving", "tensorflow-serving", "tensorflow:serving"),
        *("registry.example/serving:tensorflow", "registry.example/x@tensorflow/serving", ""),
    ],
)
def test_other_images_are_not(image: str) -> None:
    body, said = limited(serving(image, args=["--port=1"]))
    assert (body["args"], said) == (["--port=1"], [])


@pytest.mark.parametrize("path", ["", "/usr/bin/", "./", "/opt/tf serving/"])
@pytest.mark.parametrize("program", [SERVER, "tf_serving_entrypoint.sh"])
def test_it_is_known_by_its_command(program: str, path: str) -> None:
    body, said = limited(serving(OTHER, command=[path + program, "--port=8500"]))
    assert body["command"] == [path + program, "--port=8500"]
    assert (body["args"], said) == ([OUR_FLAG], [])


@pytest.mark.parametrize(
    "command", [["my_" + SERVER], [SERVER + "_2"], ["python", SERVER], [SERVER + "/run"]]
)
def test_other_commands_are_not(command: list[str]) -> None:
    body, said = limited(serving(OTHER, command=command, args=["x"]))
    assert (body["args"], said) == (["x"], [])


@pytest.mark.parametrize("note", ["tensorflow-serving", "main=tensorflow-serving"])
def test_it_is_known_by_annotation(note: str) -> None:
    body, said = limited(serving(OTHER, args=["--port=1"]), **{FRAMEWORK: note})
    assert (body["args"], said) == (["--port=1", OUR_FLAG], [])


@pytest.mark.parametrize("note", ["none", "main=none"])
@pytest.mark.parametrize("command", [None, [SERVER]])
def test_an_annotation_overrides_what_is_seen(note: str, command: list[str] | None) -> None:
    fields: Json = {} if command is None else {"command": command}
    body, said = limited(serving(**fields), **{FRAMEWORK: note})
    assert ("args" in body, said) == (False, [])


# Where the flag goes: every shape of command, args and image.

IMAGES = {"official": OFFICIAL, "other": OTHER}
COMMANDS: dict[str, list[str] | None] = {
    "no command": None,
    "the server": [SERVER, "--model_name=m"],
    "the entry script": ["/usr/bin/tf_serving_entrypoint.sh"],
    "a script of one's own": ["/run.sh"],
    "a script in a shell": ["bash", "/run.sh"],
    "a shell": ["sh", "-c"],
    "a shell with the text": ["/bin/bash", "-ec", f"{SERVER} --port=8500"],
}
ARGS: dict[str, list[str] | None] = {"no args": None, "args": ["--model_config_file=/c"]}
APPENDED = {
    *((image, command, "args") for image in IMAGES for command in COMMANDS if command != "a shell"),
    *((image, "the server", args) for image in IMAGES for args in ARGS),
    *((image, "the entry script", args) for image in IMAGES for args in ARGS),
    ("official", "no command", "no args"),
} - {(image, "a shell with the text", "args") for image in IMAGES}
"""Args are there; or the command runs the server or the entry script; or the official image's own
command does. Never under `sh -c`."""


@pytest.mark.parametrize("args", ARGS)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("image", IMAGES)
def test_where_the_flag_goes(image: str, command: str, args: str) -> None:
    for place in PLACES:
        check_where_the_flag_goes(image, command, args, place)


def check_where_the_flag_goes(image: str, command: str, args: str, place: str) -> None:
    written = {"command": COMMANDS[command], "args": ARGS[args]}
    fields: Json = {key: value for key, value in written.items() if value is not None}
    obj = at_place(place, serving(IMAGES[image], **fields))
    obj["metadata"]["annotations"] = {FRAMEWORK: "main=tensorflow-serving"}
    outcome = create(sent(obj))
    made = named(outcome.object)
    said = [text for text in outcome.warnings if "memory is not limited" in text]
    assert made.get("command") == COMMANDS[command]
    if (image, command, args) in APPENDED:
        assert made["args"] == [*(ARGS[args] or []), OUR_FLAG]
        assert not said
    else:
        assert made.get("args") == ARGS[args]
        (warning,) = said
        assert f"container main: its memory is not limited; add {OUR_FLAG}" in warning


@pytest.mark.parametrize(
    ("command", "args"),
    [
        (["sh", "-c", f"exec {SERVER}"], None),
        (["sh", "-c"], [f"exec {SERVER}"]),
        (["sh"], ["-c", f"exec {SERVER}"]),
        (["/bin/sh", "-ce", f"exec {SERVER}"], None),
        (["bash", "-x", "-e", "-c", f"exec {SERVER}"], None),
        (["bash", "-eo", "pipefail", "-c", f"exec {SERVER}"], None),
        (["busybox", "sh", "-c", f"exec {SERVER}"], None),
        (["/usr/bin/env", "bash", "-c", f"exec {SERVER}"], None),
        (["/sbin/tini", "--", "sh", "-c"], [f"exec {SERVER}"]),
        (["timeout", "60", "/bin/bash", "-lc"], [f"exec {SERVER}"]),
    ],
    ids=str,
)
def test_under_a_shell_nothing_is_changed(command: list[str], args: list[str] | None) -> None:
    """A word appended there would be `$0` of the script, not a flag of the server."""
    fields: Json = {"command": command} if args is None else {"command": command, "args": args}
    body, said = limited(serving(**fields))
    assert (body["command"], body.get("args")) == (command, args)
    (warning,) = said
    assert f"add {OUR_FLAG} to the shell's command line" in warning


@pytest.mark.parametrize(
    ("command", "args"),
    [
        (["bash", "/run.sh"], ["--rest_api_port=8501", "--model_config_file=/c"]),
        (["bash", "/run.sh", "--config=/c"], ["--port=1"]),
        (["/models/sh"], ["--rest_api_port=1"]),
        ([SERVER, "--model_name=sh", "-c"], None),
        ([SERVER, "--model_base_path=/models/sh", "-c"], None),
    ],
    ids=str,
)
def test_a_script_in_a_shell_and_flags_with_a_c_are_no_command_text(
    command: list[str], args: list[str] | None
) -> None:
    fields: Json = {"command": command} if args is None else {"command": command, "args": args}
    body, said = limited(serving(**fields))
    assert (body["args"], said) == ([*(args or []), OUR_FLAG], [])


@pytest.mark.parametrize("empty", [[], None])
def test_empty_lists_are_none(empty: Any) -> None:
    body, said = limited(serving(command=empty, args=empty))
    assert (body["args"], said) == ([OUR_FLAG], [])


# The user's own flag: the last one wins (gpu.md 2.2).


@pytest.mark.parametrize("value", ["0.3", "0.1", ".3", "3e-1", "0.299999", "0.30"])
@pytest.mark.parametrize("where", ["command", "args"])
def test_a_users_flag_within_the_share_stays(where: str, value: str) -> None:
    words = [SERVER, "--port=1", FLAG + value]
    fields: Json = {"command": words} if where == "command" else {"args": words[1:]}
    body, said = limited(serving(**fields))
    assert (body.get("command"), body.get("args")) == (fields.get("command"), fields.get("args"))
    assert said == []


@pytest.mark.parametrize("value", ["0.31", "1", "0", "-0.1", "", "lots", "nan", "300m", "$(X)"])
@pytest.mark.parametrize("where", ["command", "args"])
def test_another_flag_is_overridden_with_a_warning(where: str, value: str) -> None:
    words = [SERVER, "--port=1", FLAG + value]
    fields: Json = {"command": words} if where == "command" else {"args": words[1:]}
    body, said = limited(serving(**fields))
    assert body["args"] == [*fields.get("args", []), OUR_FLAG]
    (warning,) = said
    assert f"{FLAG}{value} is overridden by its share" in warning


def test_the_last_of_several_flags_counts() -> None:
    body, said = limited(serving(args=[FLAG + "0.9", FLAG + "0.2"]))
    assert (body["args"], said) == ([FLAG + "0.9", FLAG + "0.2"], [])
    body, said = limited(serving(args=[FLAG + "0.2", FLAG + "0.9"]))
    assert body["args"] == [FLAG + "0.2", FLAG + "0.9", OUR_FLAG]


@pytest.mark.parametrize("fields", [{"args": [OUR_FLAG]}, {"command": [SERVER, OUR_FLAG]}])
def test_our_own_flag_is_not_added_twice(fields: Json) -> None:
    """B17."""
    body, said = limited(serving(**fields))
    assert [*body.get("command", []), *body.get("args", [])].count(OUR_FLAG) == 1
    assert said == []


@pytest.mark.parametrize(
    "value", ["0.3", "0.1", "$(MILLIGPU_MEMORY_FRACTION)", "${MILLIGPU_MEMORY_FRACTION}"]
)
def test_a_flag_within_the_share_on_a_shells_line_is_enough(value: str) -> None:
    for text in (f"{SERVER} {FLAG}{value}", f"exec {SERVER} '{FLAG}{value}' --x=1; sleep 1"):
        body, said = limited(serving(command=["sh", "-c", text]))
        assert (body["command"], said) == (["sh", "-c", text], [])


@pytest.mark.parametrize("value", ["0.9", "0", "$FRACTION", ""])
def test_another_flag_on_a_shells_line_gets_the_advice(value: str) -> None:
    _, said = limited(serving(command=["sh", "-c", f"{SERVER} {FLAG}{value} --x=1"]))
    (warning,) = said
    assert "to the shell's command line" in warning


# Whose it is.


def test_only_a_container_with_a_share_is_changed() -> None:
    obj = pod(
        container("plain", image=OFFICIAL),
        container("nvidia", {"nvidia.com/gpu": "1"}, image=OFFICIAL),
        container("whole", {"gpu": "1"}, image=OFFICIAL),
        container("count", {COUNT: "5"}, image=OFFICIAL),
    )
    made = created(sent(obj))
    assert {body["name"]: body.get("args") for body in made["spec"]["containers"]} == {
        "plain": None,
        "nvidia": None,
        "whole": None,
        "count": [OUR_FLAG],
    }


def test_two_servers_of_one_pod_get_the_flag_each() -> None:
    made = created(sent(pod(serving(), {**serving(), "name": "second"})))
    assert [body["args"] for body in made["spec"]["containers"]] == [[OUR_FLAG], [OUR_FLAG]]


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_template_keeps_its_arguments_and_the_advice_is_given_there(kind: str) -> None:
    outcome = create(sent(holding(kind, pod(serving(command=["sh", "-c", SERVER])))))
    assert named(outcome.object)["command"] == ["sh", "-c", SERVER]
    assert any("memory is not limited" in text for text in outcome.warnings)
    outcome = create(sent(holding(kind, pod(serving()))))
    assert "args" not in named(outcome.object)


# An annotation without a name is for the main container, as an ask's.


def flagged(obj: Json) -> list[str]:
    made = created(sent(obj))
    bodies = [*made["spec"].get("initContainers", []), *made["spec"]["containers"]]
    return [body["name"] for body in bodies if OUR_FLAG in body.get("args", [])]


def worker(name: str, ask: str | None = "300m") -> Json:
    return container(name, {"gpu": ask} if ask else None, args=["--x=1"])


NOTE = {FRAMEWORK: "tensorflow-serving"}


def test_it_is_not_for_an_init_container() -> None:
    obj = pod(worker("main"), init=[worker("warm")], annotations=NOTE)
    assert flagged(obj) == ["main"]


def test_it_is_for_the_default_container() -> None:
    default = {"kubectl.kubernetes.io/default-container": "b"}
    obj = pod(worker("a"), worker("b"), annotations={**NOTE, **default})
    assert flagged(obj) == ["b"]


def test_it_is_for_the_container_that_the_ask_is_for() -> None:
    ask = {"milligpu.io/gpu": "200m"}
    obj = pod(worker("a"), worker("b", "200m"), annotations={**NOTE, **ask})
    assert flagged(obj) == ["b"]


def test_it_passes_over_containers_without_a_share() -> None:
    assert flagged(pod(worker("a", None), worker("b"), annotations=NOTE)) == ["b"]


def test_it_is_for_an_init_container_where_only_that_has_a_share() -> None:
    obj = pod(worker("a", None), init=[worker("warm")], annotations=NOTE)
    assert flagged(obj) == ["warm"]


def test_detection_goes_on_in_the_other_containers() -> None:
    obj = pod(worker("a"), {**serving(), "name": "b"}, annotations={FRAMEWORK: "none"})
    assert flagged(obj) == ["b"]
