"""Several containers of one pod, each with what is its own."""

import pytest

from tests.cluster import images, shapes
from tests.cluster.node import Node
from tests.cluster.product import use_cards
from tests.cluster.spaces import Space, asking, reporting
from vgpu import names

pytestmark = pytest.mark.node


@pytest.fixture(autouse=True)
def _two_cards(node: Node) -> None:
    use_cards(node, "two-t4")


def test_an_init_container_a_sidecar_and_the_main_one(space: Space) -> None:
    pod = shapes.pod("model", asking("main", "400m"))
    pod["spec"]["initContainers"] = [
        asking("warm", "400m", "--once"),
        asking("side", "50m", restartPolicy="Always"),
    ]
    space.create(pod)
    reports = space.reports(space.running("model"))
    counts = {name: report.env[names.ENV_SLOTS] for name, report in reports.items()}
    assert counts == {"warm": "40", "side": "5", "main": "40"}
    # The init container's slots come again for the main one.
    assert reports["warm"].env[names.ENV_GPU_UUID] == reports["main"].env[names.ENV_GPU_UUID]
    cpus = {name: report.cpu.split()[0] for name, report in reports.items()}
    assert cpus == {"warm": "320000", "side": "40000", "main": "320000"}


def test_two_containers_with_different_shares(space: Space) -> None:
    pod = shapes.pod("model", asking("a", "300m"), asking("b", "150m"), reporting("c"))
    space.create(pod)
    expect(space, {"a": ("30", "0.3", "240000"), "b": ("15", "0.15", "120000")})


def test_the_annotation_by_names(space: Space) -> None:
    note = {names.ANNOTATION_ASK: "a=300m,b=15%"}
    containers = (reporting("a"), reporting("b"), reporting("c"))
    space.create(shapes.pod("model", *containers, annotations=note))
    expect(space, {"a": ("30", "0.3", "240000"), "b": ("15", "0.15", "120000")})


def expect(space: Space, shares: dict[str, tuple[str, str, str]]) -> None:
    """Check slots, fraction and CPU quota by container; c has no share and sees no card."""
    reports = space.reports(space.running("model"))
    for name, (slots, fraction, quota) in shares.items():
        env = reports[name].env
        assert (env[names.ENV_SLOTS], env[names.ENV_FRACTION]) == (slots, fraction)
        assert reports[name].cpu == f"{quota} 100000"
    assert reports["c"].env[names.ENV_VISIBLE_DEVICES] == names.VOID
    assert names.ENV_SLOTS not in reports["c"].env


def test_tensorflow_serving_receives_its_fraction(space: Space) -> None:
    serving = asking("serving", "300m", "--enable_batching=true", image=images.SERVING)
    space.create(shapes.pod("model", serving))
    argv = space.reports(space.running("model"))["serving"].argv
    assert argv[0].endswith("tensorflow_model_server")
    assert argv[-2:] == ["--enable_batching=true", "--per_process_gpu_memory_fraction=0.2666"]
