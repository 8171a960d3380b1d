"""What a container is given along with its slots or cards."""

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin import edits
from plugin.config import Config, Strategy
from plugin.edits import Edits, Handing
from plugin.gpu import MIB, Gpu
from vgpu import names
from vgpu.slots import PER_CARD

FILES = frozenset({"nvidia1", "nvidia6", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"})
STRATEGIES: tuple[Strategy, ...] = ("envvar", "volume-mounts", "device-nodes", "cdi")


def gpu(usable_mib: int, reserved_mib: int = 0) -> Gpu:
    total = (usable_mib + reserved_mib) * MIB
    return Gpu("GPU-a", 0, 0, "Tesla T4", memory_total=total, memory_reserved=reserved_mib * MIB)


# The driver's order is neither that of the ids nor that of the device files.
B = Gpu("GPU-b", 0, 6, "Tesla T4", 15360 * MIB)
A = Gpu("GPU-a", 1, 1, "Tesla T4", 15360 * MIB)


def handing(strategy: Strategy, files: Iterable[str] = FILES, **settings: str) -> Handing:
    config = Config(device_list_strategy=strategy, **settings)  # type: ignore[arg-type]
    return Handing(config, frozenset(files))


def environment(card: Gpu, count: int, margin_mib: int = 512) -> dict[str, str]:
    return dict(edits.share(card, count, Handing(Config(memory_margin_mib=margin_mib))).envs)


# --- The share's variables ----------------------------------------------------------------------


def test_300m_of_a_t4() -> None:
    assert environment(gpu(15360, reserved_mib=1024), 30, 512) == {
        "MILLIGPU_GPU_UUID": "GPU-a",
        "MILLIGPU_SLOTS": "30",
        "MILLIGPU_SHARE": "0.3",
        "MILLIGPU_MEMORY_MIB": "4608",
        "MILLIGPU_MEMORY_FRACTION": "0.2666",
        "NVIDIA_VISIBLE_DEVICES": "GPU-a",
    }


def test_the_variables_of_a_share_are_known_not_to_be_settings() -> None:
    ours = {each for each in environment(gpu(15360), 30) if each.startswith(names.ENV_OURS)}
    assert ours == names.ENV_OF_SHARES


@pytest.mark.parametrize(
    ("usable", "count", "margin", "memory", "fraction", "share"),
    [
        (15360, 1, 512, "153", "0.0074", "0.01"),  # the margin is a quarter: 38.25 MiB
        (15360, 13, 512, "1996", "0.0974", "0.13"),  # just below the size where 512 is a quarter
        (15360, 14, 512, "2150", "0.1066", "0.14"),  # just above
        (15360, 100, 512, "15360", "0.9666", "1"),
        (15360, 50, 0, "7680", "0.5", "0.5"),
        (143771, 33, 512, "47444", "0.3264", "0.33"),
        (100, 1, 512, "1", "0.0075", "0.01"),
    ],
)
def test_exact_values(
    usable: int, count: int, margin: int, memory: str, fraction: str, share: str
) -> None:
    env = environment(gpu(usable), count, margin)
    assert env[names.ENV_MEMORY_MIB] == memory
    assert env[names.ENV_MEMORY_FRACTION] == fraction
    assert env[names.ENV_SHARE] == share


def test_usable_memory_is_rounded_once() -> None:
    card = Gpu("GPU-a", 0, 0, "odd", memory_total=1000 * MIB, memory_reserved=100 * MIB - 1)
    assert card.usable_mib == 900
    assert environment(card, 100, 0)[names.ENV_MEMORY_MIB] == "900"


@given(st.integers(100, 10**6), st.integers(1, PER_CARD), st.integers(0, 65536))
def test_laws(usable: int, count: int, margin: int) -> None:
    env = environment(gpu(usable), count, margin)
    memory, fraction = int(env[names.ENV_MEMORY_MIB]), Fraction(env[names.ENV_MEMORY_FRACTION])
    assert memory * PER_CARD <= usable * count < (memory + 1) * PER_CARD
    assert 0 < fraction <= Fraction(count, PER_CARD), "0 would mean all memory to TensorFlow"
    assert fraction * usable >= Fraction(3, 4) * memory - Fraction(usable, 10**4)
    assert fraction * usable <= max(Fraction(memory - margin), Fraction(3, 4) * memory)


@given(st.lists(st.integers(1, PER_CARD), min_size=1).filter(lambda counts: sum(counts) <= 100))
def test_shares_of_one_card_never_add_up_to_more_than_it_has(counts: list[int]) -> None:
    envs = [environment(gpu(15109), count) for count in counts]
    assert sum(int(env[names.ENV_MEMORY_MIB]) for env in envs) <= 15109
    assert sum(Fraction(env[names.ENV_MEMORY_FRACTION]) for env in envs) < 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_shares_variables_do_not_depend_on_the_way_of_handing_out(strategy: Strategy) -> None:
    env = edits.share(A, 30, handing(strategy)).envs
    assert {name: env[name] for name in names.ENV_OF_SHARES} == {
        name: environment(A, 30)[name] for name in names.ENV_OF_SHARES
    }
    assert env.keys() == names.ENV_OF_SHARES | {names.ENV_VISIBLE_DEVICES}


# --- The card -----------------------------------------------------------------------------------


def given_beside(given_: Edits) -> dict[str, object]:
    """What an answer holds, its variables as those of a whole card."""
    whole = (names.ENV_GPU_UUID, names.ENV_VISIBLE_DEVICES)
    return {
        "env": [given_.envs[name] for name in whole],
        "mounts": tuple((it.host_path, it.container_path, it.read_only) for it in given_.mounts),
        "devices": devices(given_),
        "cdi": tuple(it.name for it in given_.cdi_devices),
    }


def devices(given_: Edits) -> tuple[tuple[str, str], ...]:
    assert all(it.permissions == "rw" for it in given_.devices)
    return tuple((it.host_path, it.container_path) for it in given_.devices)


CONTROLS = tuple((f"/dev/{name}",) * 2 for name in ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"))
NOTHING: dict[str, object] = {"mounts": (), "devices": (), "cdi": ()}
MARKERS = "/var/run/nvidia-container-devices"


@pytest.mark.parametrize(
    ("way", "wanted"),
    [
        (handing("envvar"), {"env": ["GPU-a", "GPU-a"]}),
        (
            handing("volume-mounts"),
            {
                "env": ["GPU-a", MARKERS],
                "mounts": (("/dev/null", f"{MARKERS}/GPU-a", True),),
            },
        ),
        (
            handing("device-nodes"),
            {"env": ["GPU-a", "GPU-a"], "devices": (("/dev/nvidia1", "/dev/nvidia1"), *CONTROLS)},
        ),
        (
            handing("device-nodes", driver_root="/home/kubernetes/bin/nvidia"),
            {
                "env": ["GPU-a", "void"],
                "devices": (("/dev/nvidia1", "/dev/nvidia1"), *CONTROLS),
                "mounts": (("/home/kubernetes/bin/nvidia", "/usr/local/nvidia", True),),
            },
        ),
        (handing("cdi"), {"env": ["GPU-a", "void"], "cdi": ("milligpu.io/gpu=GPU-a",)}),
        (
            handing("cdi", cdi_kind="nvidia.com/gpu", driver_root="/nowhere"),
            {"env": ["GPU-a", "void"], "cdi": ("nvidia.com/gpu=GPU-a",)},
        ),
    ],
)
def test_a_card_is_handed_out(way: Handing, wanted: dict[str, object]) -> None:
    assert given_beside(edits.share(A, 30, way)) == {**NOTHING, **wanted}
    assert given_beside(edits.whole([A], way)) == {**NOTHING, **wanted}


@pytest.mark.parametrize("cards", [[A, B], [B, A], [B, A, B]])
@pytest.mark.parametrize(
    ("way", "wanted"),
    [
        (handing("envvar"), {"env": ["GPU-b,GPU-a"] * 2}),
        (
            handing("volume-mounts"),
            {
                "env": ["GPU-b,GPU-a", MARKERS],
                "mounts": tuple(("/dev/null", f"{MARKERS}/GPU-{x}", True) for x in "ba"),
            },
        ),
        (
            handing("device-nodes"),
            {
                "env": ["GPU-b,GPU-a"] * 2,
                "devices": (
                    ("/dev/nvidia6", "/dev/nvidia6"),
                    ("/dev/nvidia1", "/dev/nvidia1"),
                    *CONTROLS,
                ),
            },
        ),
        (
            handing("cdi"),
            {
                "env": ["GPU-b,GPU-a", "void"],
                "cdi": ("milligpu.io/gpu=GPU-b", "milligpu.io/gpu=GPU-a"),
            },
        ),
    ],
    ids=STRATEGIES,
)
def test_whole_cards_come_once_each_by_the_drivers_number(
    cards: list[Gpu], way: Handing, wanted: dict[str, object]
) -> None:
    assert given_beside(edits.whole(cards, way)) == {**NOTHING, **wanted}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_whole_card_has_no_variables_of_a_share(strategy: Strategy) -> None:
    given_ = edits.whole([A], handing(strategy))
    assert given_.envs.keys() == {names.ENV_GPU_UUID, names.ENV_VISIBLE_DEVICES}


def test_only_device_files_that_there_are_are_handed_out() -> None:
    way = handing("device-nodes", files=["nvidia1", "nvidia6", "nvidia-uvm", "nvidia-modeset"])
    assert devices(edits.share(A, 1, way)) == (
        ("/dev/nvidia1", "/dev/nvidia1"),
        ("/dev/nvidia-uvm", "/dev/nvidia-uvm"),
    )


# --- What there is on the node ------------------------------------------------------------------


def test_the_folder_of_device_files_is_looked_at_each_time(tmp_path: Path) -> None:
    config = Config(device_list_strategy="device-nodes", dev_dir=tmp_path / "dev")
    assert edits.handing(config) == Handing(config)
    (tmp_path / "dev").mkdir()
    for name in ("nvidia1", "nvidiactl", "null"):
        (tmp_path / "dev" / name).touch()
    found = edits.handing(config)
    assert found == Handing(config, frozenset({"nvidia1", "nvidiactl"}))
    assert devices(edits.share(A, 1, found)) == (
        (f"{tmp_path}/dev/nvidia1", "/dev/nvidia1"),
        (f"{tmp_path}/dev/nvidiactl", "/dev/nvidiactl"),
    )


WSL = Gpu("GPU-w", 0, None, "RTX", 15360 * MIB)


@pytest.mark.parametrize(
    ("way", "card", "wanted"),
    [
        (handing("device-nodes"), A, ""),
        (handing("cdi"), A, ""),
        (
            handing("device-nodes"),
            WSL,
            "it has no device file (WSL), so device-nodes cannot hand it out",
        ),
        (handing("cdi"), WSL, "it has no device file (WSL), so cdi cannot hand it out"),
        (
            handing("device-nodes", files=()),
            A,
            "/dev/nvidia1 is not there, which device-nodes needs",
        ),
        (handing("cdi", files=["nvidia6"]), A, "/dev/nvidia1 is not there, which cdi needs"),
        # Where others name the files, the card needs none that we know.
        (handing("cdi", files=(), cdi_kind="nvidia.com/gpu"), WSL, ""),
        (handing("envvar", files=()), WSL, ""),
        (handing("volume-mounts", files=()), WSL, ""),
    ],
)
def test_a_card_that_cannot_be_handed_out_is_told(way: Handing, card: Gpu, wanted: str) -> None:
    assert edits.lacks(card, way) == wanted
