from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin.edits import environment
from plugin.gpu import MIB, Gpu
from vgpu import names
from vgpu.slots import PER_CARD


def gpu(usable_mib: int, reserved_mib: int = 0) -> Gpu:
    total = (usable_mib + reserved_mib) * MIB
    return Gpu("GPU-a", 0, 0, "Tesla T4", memory_total=total, memory_reserved=reserved_mib * MIB)


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
    ours = {each for each in environment(gpu(15360), 30, 512) if each.startswith(names.ENV_OURS)}
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
    envs = [environment(gpu(15109), count, 512) for count in counts]
    assert sum(int(env[names.ENV_MEMORY_MIB]) for env in envs) <= 15109
    assert sum(Fraction(env[names.ENV_MEMORY_FRACTION]) for env in envs) < 1
