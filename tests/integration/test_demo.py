"""`milligpu demo`: the whole path, and that what it prints is what the programs answered."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from milligpu import manifests
from milligpu.demo import EXAMPLES, Demo
from milligpu.kubelet import AdmissionError, Grant
from milligpu.processes import ProgramError
from milligpu.show import Screen
from milligpu.stage import Stage
from milligpu.workloads import arriving, review
from plugin.simulated import SHIPPED
from vgpu import names
from webhook.admission import answer
from webhook.config import Config

Json = dict[str, Any]

FILES = sorted([*EXAMPLES.glob("*.yaml"), *EXAMPLES.glob("refused/*.yaml")])
INVENTORY = json.loads((SHIPPED / "two-t4-one-l4.json").read_text())
CARDS = [gpu["uuid"][:12] for gpu in INVENTORY["gpus"]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the demo's own temporary folder will be; it must be gone afterwards."""
    made = tmp_path / "t"
    made.mkdir()
    return made


@contextmanager
def starting(folder: Path, *files: Path, **environ: object) -> Iterator[subprocess.Popen[str]]:
    """Run the demo as the leader of a process group, which must be empty in the end."""
    environment = os.environ | {"TMPDIR": str(folder), "COLUMNS": "100"}
    environment |= {name: str(value) for name, value in environ.items()}
    process = subprocess.Popen(
        [sys.executable, "-m", "milligpu", "demo", *map(str, files)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        yield process
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert list(folder.iterdir()) == [], "nothing is left of its files"


def run(folder: Path, *files: Path, **environ: object) -> tuple[int, str, str]:
    with starting(folder, *files, **environ) as process:
        out, err = process.communicate(timeout=50)
    return process.returncode, out, err


def flat(text: str) -> str:
    return " ".join(text.split())


def examples() -> Iterator[Json]:
    for path in FILES:
        for manifest in manifests.read(path).manifests:
            yield manifest.document


def test_every_example_is_shown_with_the_webhooks_own_words(folder: Path) -> None:
    status, out, err = run(folder)
    assert (status, err) == (0, "")
    positions = [out.index(f"{number}/{len(FILES)}  ") for number in range(1, len(FILES) + 1)]
    assert positions == sorted(positions)
    refused = 0
    for document in examples():
        response = answer(review(arriving(document)), Config()).body["response"]
        for warning in response.get("warnings", ()):
            assert flat(warning) in flat(out)
        if not response["allowed"]:
            refused += 1
            assert f"refused {flat(response['status']['message'])}" in flat(out)
    assert refused == len(re.findall(r"^ +refused ", out, re.MULTILINE)) == 2


def test_the_main_job_is_there_to_see(folder: Path) -> None:
    _, out, _ = run(folder)
    text = flat(out)
    first, second, third = CARDS
    for number in (0, 1, 2):
        assert f"sentiment-{number} Running model: 30 slots of {first}, 4608 MiB" in text
    assert "- gpu: 300m memory: 2Gi + milligpu.io/vgpu: '30'" in text
    assert "+ - {name: PER_PROCESS_GPU_MEMORY_FRACTION, value: '0.3'}" in text
    assert "+ - --per_process_gpu_memory_fraction=$(MILLIGPU_MEMORY_FRACTION)" in text
    assert f"resnet-0 Running serving: 30 slots of {second}, 4608 MiB plugin MILLIGPU_GPU_" in text
    assert "MILLIGPU_MEMORY_FRACTION=0.2666" in text
    assert "uploader:1 + env: + - {name: NVIDIA_VISIBLE_DEVICES, value: void}" in text
    assert "333m is rounded up to 34 slots" in text
    assert f"{first} {'#' * 15}{'=' * 15}{'#' * 15}{'=' * 5} 100 of 100 " in text
    assert "offers 300 x milligpu.io/vgpu plugin offers 3 x milligpu.io/pgpu" in text
    assert f"pretraining Running trainer: all of {third} plugin MILLIGPU_GPU_UUID={third}-" in text
    assert f"{third} {'#' * 50} 100 of 100 pretraining:100" in text
    end = out[out.index("9/9 ") :]
    assert f"{first}  {'#' * 15}{'=' * 15}{'#' * 15}.....   90 of 100" in end
    assert f"{second}  {'#' * 15}{'.' * 35}   30 of 100" in end
    assert f"{third}  {'.' * 50}    0 of 100" in end


def test_other_settings_and_other_cards_make_another_story(folder: Path, tmp_path: Path) -> None:
    inventory = tmp_path / "cards.json"
    card = {"uuid": "SIM-other-0001", "model": "Made-up 40G", "memory_total_mib": 40960}
    inventory.write_text(json.dumps({"gpus": [card]}))
    settings = {
        "MILLIGPU_CPUS_PER_GPU": "4",
        "MILLIGPU_TOLERATIONS": "[]",
        "MILLIGPU_INVENTORY_FILE": inventory,
        "MILLIGPU_MEMORY_MARGIN_MIB": "0",
    }
    status, out, err = run(folder, FILES[0], **settings)
    assert (status, err) == (0, "")
    assert "offers 100 x milligpu.io/vgpu" in out
    assert flat(out).count("30 slots of SIM-other-00, 12288 MiB") == 3
    assert "+ cpu: 1200m" in flat(out)
    assert "MILLIGPU_MEMORY_FRACTION=0.3 " in flat(out)
    assert "90 of 100" in out
    assert "tolerations" not in out


def pod(name: str, **limits: object) -> Json:
    container = {"name": "c", "image": "r.example/c", "resources": {"limits": limits}}
    metadata = {"name": name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container]},
    }


def write(path: Path, *documents: object) -> Path:
    path.write_text("\n---\n".join(json.dumps(document) for document in documents))
    return path


def test_a_file_of_ones_own(folder: Path, tmp_path: Path) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    template = {"spec": pod("", gpu=0.7)["spec"]}
    metadata = {"name": "big"}
    big = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata}
    big["spec"] = {"replicas": 1000, "template": template}
    whole = pod("whole", **{"nvidia.com/gpu": 1})
    listed = {"apiVersion": "v1", "kind": "List", "items": [big, pod("late", gpu="400m"), whole]}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "j"}}
    path = write(tmp_path / "my.yaml", service, job, listed)
    environ = {"FORCE_COLOR": "", "PYTHONIOENCODING": "ascii", "MILLIGPU_INVENTORY_FILE": "two-t4"}
    status, out, err = run(folder, path, **environ)
    assert (status, err) == (0, "")
    assert out.isascii()
    assert "\x1b" not in out
    text = flat(out)
    assert "Service/s passed holds no pods" in text
    made = "the webhook is not asked about it, but about the pods its operator makes"
    assert f"PyTorchJob/j passed {made}" in text
    assert re.search(r"next: \S+/milligpu lint your\.yaml; the README tells the rest$", text)
    pending = "Pending 0/1 nodes are available: 1 Insufficient milligpu.io/vgpu."
    assert f"big-2 {pending} and 997 more like it" in text, "two cards hold two of them"
    assert text.count("Pending") == 1, "60 slots are free, though on two cards"
    assert "late Failed UnexpectedAdmissionError" in text
    assert "whole Running no share in it" in text


def test_pods_of_a_file_that_end_make_room_for_the_next_one(folder: Path, tmp_path: Path) -> None:
    files = [write(tmp_path / f"{name}.yaml", pod(name, gpu="900m")) for name in "abc"]
    status, out, _ = run(folder, *files)
    assert status == 0
    assert flat(out).count("Running c: 90 slots of") == 3
    assert "a ended" in out


def test_a_pod_of_the_same_name_takes_the_place_of_the_first(folder: Path, tmp_path: Path) -> None:
    twice = write(tmp_path / "a.yaml", pod("a", gpu="900m"), pod("a", gpu="800m"))
    full = [pod("x", gpu="900m"), pod("y", gpu="900m"), pod("b", gpu="100m"), pod("b", gpu="300m")]
    never = write(tmp_path / "b.yaml", *full)
    status, out, err = run(folder, twice, never, twice, MILLIGPU_INVENTORY_FILE="two-t4")
    assert (status, err) == (0, "")
    assert " 80 of 100 a:80 " in flat(out[: out.index("2/3")])
    assert out.count("default/a ended") == out.count("default/x ended") == 1
    assert "b  Pending" in out
    assert "default/b ended" not in out, "the first one was gone before"


def test_whole_cards_and_shares_keep_out_of_each_others_way(folder: Path, tmp_path: Path) -> None:
    path = write(
        tmp_path / "my.yaml",
        pod("share", gpu="100m"),
        pod("pair", gpu=2),
        pod("single", gpu=1),
        pod("count", **{"milligpu.io/vgpu": 90}),
        pod("late", gpu="100m"),
    )
    status, out, err = run(folder, path)
    assert (status, err) == (0, "")
    text, (first, second, third) = flat(out), CARDS
    assert f"pair Running c: all of {second}, {third} plugin" in text
    both = ",".join(gpu["uuid"] for gpu in INVENTORY["gpus"][1:])
    assert f"MILLIGPU_GPU_UUID={both}NVIDIA_VISIBLE_DEVICES={both}" in re.sub(r"\s", "", out)
    assert "single Pending 0/1 nodes are available: 1 Insufficient milligpu.io/pgpu." in text
    assert f"count Running c: 90 slots of {first}" in text
    assert "late Pending 0/1 nodes are available: 1 Insufficient milligpu.io/vgpu." in text
    assert f"{first} {'#' * 5}{'=' * 45} 100 of 100 share:10 count:90" in text
    for card in (second, third):
        assert f"{card} {'#' * 50} 100 of 100 pair:100" in text


def test_a_file_without_a_share_says_so(folder: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "my.yaml", pod("plain", memory="1Gi"))
    status, out, _ = run(folder, path, FORCE_COLOR="1")
    assert status == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert plain != out
    assert "pod as it is, nothing changed plain Running no share in it" in flat(plain)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: [", "my.yaml, line 1: "),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\na: 1\n", "my.yaml, document 2: "),
        (None, "my.yaml: No such file"),
    ],
)
def test_what_cannot_be_read_is_named_before_anything_starts(
    folder: Path, tmp_path: Path, text: str | None, message: str
) -> None:
    path = tmp_path / "my.yaml"
    if text is not None:
        path.write_text(text)
    status, out, err = run(folder, path)
    assert (status, out) == (2, "")
    assert err.startswith("milligpu demo: ")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MILLIGPU_CPUS_PER_GPU", "many"),
        ("MILLIGPU_INVENTORY_FILE", "no-such-node"),
        ("MILLIGPU_TYPO", "1"),
    ],
)
def test_a_setting_of_no_use_is_named(folder: Path, variable: str, value: str) -> None:
    status, _, err = run(folder, FILES[0], **{variable: value})
    assert status == 1
    assert variable in err or value in err
    assert "Traceback" not in err


def beside_an_ask(path: Path, container: str) -> Path:
    path.write_text(f"""apiVersion: v1
kind: Pod
metadata: {{name: a, annotations: null}}
spec:
  initContainers: null
  containers:
  - {{name: a, image: x, resources: {{limits: {{gpu: 300m}}}}}}
  - {container}
""")
    return path


@pytest.mark.parametrize(
    "container",
    [
        "{image: x}",
        "{name: b, resources: {limits: {memory: much}}}",
        "{name: b, env: null, resources: {limits: null, requests: null}}",
    ],
)
def test_what_no_api_server_would_store_stops_nothing_and_a_proxy_is_not_asked(
    folder: Path, tmp_path: Path, container: str
) -> None:
    path = beside_an_ask(tmp_path / "my.yaml", container)
    nobody = "http://127.0.0.1:9"
    status, out, err = run(folder, path, http_proxy=nobody, https_proxy=nobody, all_proxy=nobody)
    assert (status, err) == (0, "")
    assert "Running  a: 30 slots of" in out


def test_a_name_that_yaml_reads_as_no_is_refused_and_said(folder: Path, tmp_path: Path) -> None:
    status, out, err = run(folder, beside_an_ask(tmp_path / "my.yaml", "{name: n, image: x}"))
    assert (status, err) == (0, "")
    assert "refused spec.containers[1].name: must be a string; quote it" in flat(out)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("awaited", ["starting the webhook", "1/"])
def test_an_interruption_leaves_nothing_running(
    folder: Path, awaited: str, number: signal.Signals
) -> None:
    with starting(folder) as process:
        assert process.stdout is not None
        while awaited not in process.stdout.readline():
            assert process.poll() is None
        # Ctrl-C in a terminal reaches the whole group.
        os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 130
        assert err == ""


def test_a_reader_that_goes_away_ends_it_quietly(folder: Path) -> None:
    with starting(folder) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        process.wait(timeout=30)
        assert process.stderr.read() == ""


def test_the_other_commands_would_start_at_once() -> None:
    code = "import sys, milligpu.__main__; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    heavy = {"grpc", "flask", "jsonpatch", "ruamel.yaml", "cryptography", "asyncio"}
    assert not heavy & set(loaded)
    start = time.monotonic()
    subprocess.run([sys.executable, "-m", "milligpu", "--help"], check=True, capture_output=True)
    assert time.monotonic() - start < 5


class Liars:
    """A webhook and a kubelet whose answers no real ones would give."""

    url = "https://nowhere"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.devices = {names.COUNT: {f"SIM-x::{number}": True for number in range(77)}}
        self.devices[names.WHOLE] = {"SIM-x::whole": False}
        self.pods: dict[str, tuple[Grant, ...]] = {}

    def review(self, document: Json) -> Json:
        container = "/spec/containers/0"
        patch = [
            {"op": "replace", "path": f"{container}/resources/limits/gpu", "value": "5"},
            {
                "op": "add",
                "path": f"{container}/resources/limits/{names.COUNT.replace('/', '~1')}",
                "value": "7",
            },
            {"op": "add", "path": f"{container}/env", "value": [{"name": "LIE", "value": "42"}]},
        ]
        if document["request"]["name"] == "bad":
            return {"response": {"allowed": False, "status": {"message": "the moon is full"}}}
        encoded = b64encode(json.dumps(patch).encode()).decode()
        return {"response": {"allowed": True, "patch": encoded, "warnings": ["beware of the dog"]}}

    def free(self, name: str) -> set[str]:
        return set(self.devices[name]) if name in self.devices else set()

    async def admit(self, pod: Json) -> tuple[Grant, ...]:
        if pod["metadata"]["name"] == "unlucky":
            raise AdmissionError("bad luck")
        env = {
            names.ENV_SLOTS: "8",
            names.ENV_GPU_UUID: "SIM-elsewhere",
            names.ENV_MEMORY_MIB: "3",
        }
        grants = (Grant("c", names.COUNT, frozenset({"SIM-x::1", "SIM-x::2"}), env),)
        self.pods[f"default/{pod['metadata']['name']}"] = grants
        return grants


def test_nothing_is_shown_that_the_programs_did_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    liars = cast(Any, Liars(tmp_path))
    stage = Stage(liars, liars)
    path = write(tmp_path / "my.yaml", *(pod(name, gpu="300m") for name in ("a", "bad", "unlucky")))
    demo = Demo(Screen(100, colour=False), stage)
    asyncio.run(demo.show([manifests.read(path)]))
    text = flat(capsys.readouterr().out)
    assert "offers 77 x milligpu.io/vgpu" in text
    assert "- gpu: 300m + gpu: '5' + milligpu.io/vgpu: '7'" in text
    assert "+ env: + - {name: LIE, value: '42'} warning beware of the dog" in text
    assert "a Running c: 8 slots of SIM-elsewher, 3 MiB plugin" in text
    assert f"SIM-x #{'.' * 49} 2 of 100 a:2" in text
    assert "refused the moon is full" in text
    assert "unlucky Failed UnexpectedAdmissionError: Allocate failed due to bad luck" in text
    assert not {"30", "4608", "2400m"} & set(re.split(r"[^\w]", text))


class Gone(Liars):
    def review(self, document: Json) -> Json:
        raise ConnectionRefusedError("nobody listens")


def test_a_webhook_that_does_not_answer_is_said(tmp_path: Path) -> None:
    gone = cast(Any, Gone(tmp_path))
    with pytest.raises(ProgramError, match="no answer from the webhook: nobody listens"):
        asyncio.run(Stage(gone, gone).create(pod("a", gpu="300m")))
