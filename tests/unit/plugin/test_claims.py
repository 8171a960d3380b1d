import pytest

from plugin.checkpoint import Checkpoint
from plugin.claims import Claims
from plugin.pods import Pods
from vgpu import names

UUID = "GPU-10000000-0000-4000-8000-000000000001"
THEIRS = {names.NVIDIA_GPU: frozenset({UUID})}


def claims(registered: dict[str, frozenset[str]]) -> Claims:
    made = Claims()
    made.start(Checkpoint(registered=registered))
    return made


@pytest.mark.parametrize(
    ("registered", "served"),
    [
        ({}, False),
        (THEIRS, False),
        ({names.COUNT: frozenset({f"{UUID}::0"})}, True),
        ({names.COUNT: frozenset()}, True),
        ({names.COUNT: frozenset(), names.WHOLE: frozenset()}, True),
        ({names.COUNT: frozenset(), **THEIRS}, True),
        # A network card's plugin is none of our business, a GPU's that is not back yet is.
        ({names.COUNT: frozenset(), "example.com/nic": frozenset()}, True),
        ({names.COUNT: frozenset(), names.NVIDIA_GPU: frozenset()}, False),
    ],
)
def test_whether_the_node_is_known(registered: dict[str, frozenset[str]], served: bool) -> None:
    assert claims(registered).served is served


def test_what_was_written_counts_while_settling_and_until_a_list_is_had() -> None:
    known = claims(THEIRS)
    assert known.of(UUID, settling=True) == known.of(UUID, settling=False) == names.NVIDIA_GPU
    known.polled(Pods(), Checkpoint())
    assert known.of(UUID, settling=True) == names.NVIDIA_GPU
    assert known.of(UUID, settling=False) == ""


def test_what_is_listed_once_counts_for_good() -> None:
    known = claims({})
    known.polled(Pods(foreign=THEIRS), Checkpoint())
    known.polled(Pods(), Checkpoint())
    assert known.of(UUID, settling=False) == names.NVIDIA_GPU
