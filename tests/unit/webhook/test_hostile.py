"""Objects made to hurt: the time that they take grows with them, and what is said does not."""

import time
from collections.abc import Callable

import pytest

from tests.unit.webhook.objects import COUNT, answered, container, pod, review, sent
from webhook.pod import Json

MANY = 20_000
"""What took time or room by its square took minutes, or all memory, at this length."""
ASK = "milligpu.io/gpu"


def _asking(number: int, ask: str = "300m") -> list[Json]:
    return [container(f"c{index}", limits={"gpu": ask}) for index in range(number)]


def _variables(every: int) -> list[Json]:
    return [
        {"name": f"MILLIGPU_{index}" if index % every == 0 else f"V{index}", "value": ""}
        for index in range(MANY)
    ]


def _unnamed(index: int) -> str:
    return f"other{index}=1m"


HOSTILE: dict[str, Callable[[], Json]] = {
    "an annotation of names": lambda: pod(
        container(), annotations={ASK: ",".join(map(_unnamed, range(MANY)))}
    ),
    "names beside containers": lambda: pod(
        *(container(f"c{index}") for index in range(900)),
        annotations={ASK: ",".join(map(_unnamed, range(900)))},
    ),
    "annotations": lambda: pod(
        *_asking(1), annotations={f"milligpu.io/{index}": "" for index in range(MANY)}
    ),
    "faults": lambda: pod(*_asking(900, "1500m")),
    "containers": lambda: pod(*_asking(MANY)),
    "main containers": lambda: pod(
        *_asking(900), annotations={"milligpu.io/framework": "tensorflow-serving"}
    ),
    "variables": lambda: pod(container(limits={"gpu": "300m"}, env=_variables(MANY))),
    "reserved variables": lambda: pod(container(limits={"gpu": "300m"}, env=_variables(2))),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_time_and_answer_are_bounded(name: str) -> None:
    obj = HOSTILE[name]()
    known = {f"{ASK}-{index}": "" for index in range(MANY)}
    old = pod(container("c0", limits={COUNT: "30"}), annotations=known)
    arrived = sent(obj)
    for document in (review(arrived), review(arrived, sent(old))):
        start = time.monotonic()
        outcome = answered(document)
        assert time.monotonic() - start < 8
        assert len(outcome.message) < 10_000
        assert len(str(outcome.patch)) < 8 * len(str(arrived))


def test_a_message_names_the_first_faults_and_counts_the_rest() -> None:
    message = answered(review(sent(pod(*_asking(30, "1500m"))))).message
    assert message.count("1500m is not allowed") == 20
    assert message.endswith("; and 10 more")
    message = answered(review(sent(pod(*_asking(20, "1500m"))))).message
    assert message.count("1500m is not allowed") == 20
    assert "more" not in message


def test_no_pod_has_so_many_containers() -> None:
    assert answered(review(sent(pod(*_asking(1000))))).allowed
    message = answered(review(sent(pod(*_asking(1001))))).message
    assert message == "spec.containers: 1001 containers are too many; allowed: 1000"
