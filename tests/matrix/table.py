"""What a user may write, row by row, and what becomes of it (design section 3).

A row is the YAML of one container, as a user writes it, and its outcome. The tests beside this
table put that container into every kind, at every place of a pod, in both forms, and create it,
bring it by an update, and apply it again. Read `it` for the container in question, whichever its
place. Under `annotations` stand those of the pod (or of the template), under `workload` those on
the workload's own metadata, under `beside` further containers of the pod.

On the real API server the outcome is the same, but where a row says otherwise.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from ruamel.yaml import YAML

from tests.unit.webhook.objects import KINDS, TEMPLATES, at_place, container
from webhook.pod import Json

ASK_KEYS = ("gpu", "milligpu.io/gpu")
NVIDIA = "nvidia.com/gpu"
ANNOTATION = "milligpu.io/gpu"
APP = ("container",)
EVERY_PLACE = ("container", "init container", "sidecar")


@dataclass(frozen=True)
class Share:
    """So many slots, as `milligpu.io/vgpu`, and everything that a pod with a share gets."""

    it: int = 0
    other: int = 0
    """Slots of the container of this name, from `beside`."""
    removes: str = ""
    """A variable that the pod loses, with a warning."""
    says: str = ""
    """The one warning, beside those of the CPU limit and of what is removed."""


@dataclass(frozen=True)
class Whole:
    """So many whole cards, as `milligpu.io/pgpu`."""

    it: int


@dataclass(frozen=True)
class Gone:
    """Nothing: the ask is taken out, the rest stays as it was written."""


@dataclass(frozen=True)
class Untouched:
    """Everything stays as it was written."""

    says: str = ""


class Denied:
    """Refused by us: a message that begins with the first words and has the others.

    `{it}` is the field path of the container, `{pod}` that of what holds its annotations.
    """

    def __init__(self, *words: str) -> None:
        self.words = words


@dataclass(frozen=True)
class Refused:
    """Refused by the API server itself, which does not ask us first."""

    words: str


@dataclass(frozen=True)
class Unsent:
    """Not sent to us, so it is stored as it was written."""


Outcome: TypeAlias = Share | Whole | Gone | Untouched | Denied
Difference: TypeAlias = Outcome | Refused | Unsent


@dataclass(frozen=True)
class Row:
    """What is written, and the outcome."""

    written: str
    outcome: Outcome
    off: Outcome | None = None
    """The outcome where whole cards are not served, if that makes a difference."""
    api: Difference | None = None
    """What the real API server makes of it, if that differs."""
    api_templates: Difference | None = None
    """The same, of templates alone: a count in one is for its pods to be judged by."""
    kinds: tuple[str, ...] = tuple(KINDS)
    places: tuple[str, ...] = EVERY_PLACE

    def expected(self, *, whole: bool) -> Outcome:
        """Return the outcome, with whole cards on or off."""
        return self.outcome if whole or not self.off else self.off

    @property
    def settings(self) -> tuple[bool, ...]:
        """Whether whole cards are served: they are, and are not where that makes a difference."""
        return (True, False) if self.off else (True,)

    def difference(self, kind: str) -> Difference | None:
        """Return what the real API server makes of a kind, if that differs."""
        return self.api if kind == "Pod" else self.api_templates or self.api

    @property
    def fields(self) -> Json:
        """What is written, parsed."""
        found: Json = _parsed(self.written)
        return found

    @property
    def note(self) -> str | None:
        """The ask in the annotation, None if there is none."""
        found: str | None = (self.fields.get("annotations") or {}).get(ANNOTATION)
        return found

    @property
    def asks(self) -> bool:
        """Whether there is an ask, wherever; a count that is declared is none."""
        sides = [self.fields.get(side) or {} for side in ("limits", "requests")]
        return self.note is not None or any(
            is_ask(key, side[key]) for side in sides for key in side
        )

    def pod(self, place: str) -> Json:
        """Return the pod: it, at its place, and what stands beside it."""
        fields = self.fields
        own = {key: fields[key] for key in ("env", "envFrom") if key in fields}
        body = container("it", fields.get("limits"), fields.get("requests"), **own)
        pod = at_place(place, body)
        if "annotations" in fields:
            pod["metadata"]["annotations"] = fields["annotations"]
        beside = fields.get("beside", ())
        pod["spec"]["containers"] += [{**container(), **body} for body in beside]
        return pod


def is_ask(key: str, value: Any) -> bool:
    """Whether a key of this table's resources is an ask."""
    return key in ASK_KEYS or (key == NVIDIA and not str(value).isdecimal() and value != "1000m")


@cache
def _parsed(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(f"{{{text}}}")


OFF = "whole cards are not served here; ask for a share below 1, or for nvidia.com/gpu"
ALLOWED = "allowed: a share above 0 and below 1 such as 300m or 0.3"
SLOTS = "is not allowed; allowed: a whole number from 1 to 100, the slots of one card"
KEEP_ONE = "a container gets one GPU resource, keep one"
ONCE = "write it in limits, once"
LONG = "9" * 40
ELSEWHERE = "valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}"

NO_QUANTITY = Refused("quantities must match the regular expression")
NO_SCALAR = Refused("expected any scalar")
NO_TEXT = Refused("expected string")
NO_INTEGER = Refused("must be an integer")
NO_LIMIT = Refused("Limit must be set for non overcommitable resources")
UNEQUAL = Refused("must be equal to")

ROWS = [
    # A share, in limits.
    Row("limits: {gpu: 300m}", Share(30)),
    Row("limits: {gpu: 0.3}", Share(30)),
    Row("limits: {gpu: '.3'}", Share(30)),
    Row("limits: {gpu: '300e-3'}", Share(30)),
    Row("limits: {milligpu.io/gpu: 300m}", Share(30)),
    Row("limits: {milligpu.io/gpu: 0.3}", Share(30)),
    Row("limits: {nvidia.com/gpu: 300m}", Share(30)),
    Row("limits: {nvidia.com/gpu: '0.3'}", Share(30)),
    Row("limits: {gpu: 300m}, requests: {gpu: 0.3}", Share(30)),
    Row("limits: {nvidia.com/gpu: 300m}, requests: {nvidia.com/gpu: 300m}", Share(30)),
    Row("limits: {gpu: 10m}", Share(1)),
    Row("limits: {gpu: 990m}", Share(99)),
    # Rounded up, with a warning that says so.
    Row("limits: {gpu: 333m}", Share(34, says="333m is rounded up to 34 slots (0.34 of a card)")),
    Row("limits: {gpu: 1m}", Share(1, says="1m is rounded up to 1 slot (0.01 of a card)")),
    Row("limits: {gpu: 999m}", Share(100, says="999m is rounded up to 100 slots (1 of a card)")),
    Row("annotations: {milligpu.io/gpu: 33.3%}", Share(34, says="33.3% is rounded up to 34 slots")),
    # A share, in the annotation of the pod. Without a name it is for the main container, which is
    # never an init container.
    Row("annotations: {milligpu.io/gpu: 300m}", Share(30)),
    Row("annotations: {milligpu.io/gpu: '0.3'}", Share(30)),
    Row("annotations: {milligpu.io/gpu: '0.4'}", Share(40)),
    Row("annotations: {milligpu.io/gpu: 30%}", Share(30)),
    Row("annotations: {milligpu.io/gpu: it=300m}", Share(30)),
    Row("annotations: {milligpu.io/gpu: it=30%}", Share(30)),
    Row(
        "annotations: {milligpu.io/gpu: 'it=500m,other=100m'}, beside: [{name: other}]",
        Share(50, other=10),
    ),
    Row(
        "annotations: {milligpu.io/gpu: 300m}, beside: [{name: other}]",
        Share(30, says="the first of 2 containers"),
    ),
    Row(
        "annotations: {milligpu.io/gpu: 300m, kubectl.kubernetes.io/default-container: other},"
        " beside: [{name: other}]",
        Share(other=30),
    ),
    Row(
        "annotations: {milligpu.io/gpu: 300m},"
        " beside: [{name: other, resources: {limits: {gpu: 0.3}}}]",
        Share(other=30),
    ),
    Row(
        "annotations: {milligpu.io/gpu: 300m, kubectl.kubernetes.io/default-container: it},"
        " beside: [{name: other, resources: {limits: {milligpu.io/vgpu: 30}}}]",
        Share(other=30),
    ),
    # The same ask twice is one ask.
    Row("limits: {gpu: 300m, milligpu.io/gpu: 0.3, nvidia.com/gpu: 300m}", Share(30)),
    Row("limits: {gpu: 300m, milligpu.io/vgpu: '30'}", Share(30)),
    Row("limits: {gpu: 300m}, annotations: {milligpu.io/gpu: it=30%}", Share(30)),
    Row("limits: {gpu: 300m}, annotations: {milligpu.io/gpu: '0.3'}", Share(30), places=APP),
    # Whole cards.
    Row("limits: {gpu: 1}", Whole(1), off=Denied("{it}.resources.limits[gpu]: 1: ", OFF)),
    Row("limits: {gpu: 2}", Whole(2), off=Denied("{it}.resources.limits[gpu]: 2: ", OFF)),
    Row("limits: {gpu: 17}", Whole(17), off=Denied("{it}.resources.limits[gpu]: 17: ", OFF)),
    Row("limits: {gpu: 2000m}", Whole(2), off=Denied("{it}.resources.limits[gpu]: 2", OFF)),
    Row(
        "limits: {milligpu.io/gpu: '2'}",
        Whole(2),
        off=Denied("{it}.resources.limits[milligpu.io/gpu]: 2: ", OFF),
    ),
    Row(
        "annotations: {milligpu.io/gpu: '1'}",
        Whole(1),
        off=Denied("{pod}.annotations[milligpu.io/gpu]: 1: ", OFF),
    ),
    Row(
        "annotations: {milligpu.io/gpu: '1.0'}",
        Whole(1),
        off=Denied("{pod}.annotations[milligpu.io/gpu]: 1.0: ", OFF),
    ),
    Row(
        "annotations: {milligpu.io/gpu: it=200%}",
        Whole(2),
        off=Denied("{pod}.annotations[milligpu.io/gpu]: 200%: ", OFF),
    ),
    Row("limits: {milligpu.io/pgpu: 2}", Whole(2), api_templates=Unsent()),
    # NVIDIA's own, in whole numbers: not even sent to us.
    Row("limits: {nvidia.com/gpu: 1}", Untouched(), api=Unsent()),
    Row("limits: {nvidia.com/gpu: '8'}", Untouched(), api=Unsent()),
    Row("limits: {nvidia.com/gpu: 1000m}", Untouched(), api=Unsent()),
    Row("limits: {nvidia.com/gpu: 0}", Untouched(), api=Unsent()),
    Row("limits: {cpu: '1'}", Untouched(), api=Unsent()),
    # Above one card only whole numbers.
    Row(
        "limits: {gpu: 1500m}",
        Denied("{it}.resources.limits[gpu]: 1500m is not allowed; ", ALLOWED),
    ),
    Row(
        "limits: {nvidia.com/gpu: 2500m}",
        Denied("{it}.resources.limits[nvidia.com/gpu]: 2500m is not allowed; ", ALLOWED),
    ),
    Row(
        "annotations: {milligpu.io/gpu: 150%}",
        Denied("{pod}.annotations[milligpu.io/gpu]: 150% is not allowed; ", ALLOWED),
    ),
    # Zero is no share.
    Row("limits: {gpu: 0}", Gone()),
    Row("limits: {milligpu.io/gpu: '0'}", Gone()),
    Row("limits: {gpu: 0, nvidia.com/gpu: 1}", Gone()),
    Row("annotations: {milligpu.io/gpu: '0'}", Gone()),
    Row("annotations: {milligpu.io/gpu: it=0%}", Gone()),
    # What is no ask: the field, the value, and what is allowed.
    Row("limits: {gpu: -1}", Denied("{it}.resources.limits[gpu]: -1 is not allowed; ", ALLOWED)),
    Row(
        "limits: {gpu: -300m}",
        Denied("{it}.resources.limits[gpu]: -300m is not allowed; ", ALLOWED),
    ),
    Row(
        "limits: {nvidia.com/gpu: -300m}",
        Denied("{it}.resources.limits[nvidia.com/gpu]: -300m is not allowed; ", ALLOWED),
    ),
    Row(
        "limits: {gpu: lots}",
        Denied("{it}.resources.limits[gpu]: 'lots': ", "not a Kubernetes quantity", ALLOWED),
        api=NO_QUANTITY,
    ),
    Row(
        "limits: {gpu: ''}",
        Denied("{it}.resources.limits[gpu]: '': ", "not a Kubernetes quantity", ALLOWED),
        api=NO_QUANTITY,
    ),
    Row(
        "limits: {gpu: 30%}",
        Denied("{it}.resources.limits[gpu]: '30%': ", "is for the annotation only", ALLOWED),
        api=NO_QUANTITY,
    ),
    Row(
        "limits: {gpu: true}",
        Denied("{it}.resources.limits[gpu]: 'true': ", "not a ", ALLOWED),
        api=NO_QUANTITY,
    ),
    Row(
        "limits: {gpu: [300m]}",
        Denied("{it}.resources.limits[gpu]: ", "not a ", ALLOWED),
        api=NO_SCALAR,
    ),
    Row("limits: {gpu: null}", Gone()),  # the API server reads it as 0
    Row(
        f"limits: {{gpu: '{LONG}'}}",
        Denied("{it}.resources.limits[gpu]: '9999", "longer than 32 characters", ALLOWED),
    ),
    Row(
        "limits: {gpu: '1e-300000'}",
        Denied("{it}.resources.limits[gpu]: '1e-300000': ", "an exponent beyond 99", ALLOWED),
        api=Share(1, says="is rounded up to 1 slot (0.01 of a card)"),  # it is sent as 1n or 1m
    ),
    Row(
        "limits: {gpu: '1e300000'}",
        Denied("{it}.resources.limits[gpu]: '1e300000': ", "an exponent beyond 99", ALLOWED),
    ),
    Row(
        "annotations: {milligpu.io/gpu: lots}",
        Denied("{pod}.annotations[milligpu.io/gpu]: 'lots': ", "not a Kubernetes", ALLOWED),
    ),
    Row(
        "annotations: {milligpu.io/gpu: ''}",
        Denied("{pod}.annotations[milligpu.io/gpu]: '': ", "not a Kubernetes quantity", ALLOWED),
    ),
    Row(
        "annotations: {milligpu.io/gpu: '-1'}",
        Denied("{pod}.annotations[milligpu.io/gpu]: -1 is not allowed; ", ALLOWED),
    ),
    Row(
        f"annotations: {{milligpu.io/gpu: '{LONG}'}}",
        Denied("{pod}.annotations[milligpu.io/gpu]: '9999", "longer than 32 characters", ALLOWED),
    ),
    Row(
        "annotations: {milligpu.io/gpu: '1e2147483648'}",
        Denied("{pod}.annotations[milligpu.io/gpu]: '1e2147483648': ", "exponent beyond 99"),
    ),
    Row(
        "annotations: {milligpu.io/gpu: 0.3}",
        Denied("{pod}.annotations[milligpu.io/gpu]: must be a string; quote it"),
        api=NO_TEXT,
    ),
    # The annotation has to name containers of the pod, in one form, each once.
    Row(
        "annotations: {milligpu.io/gpu: trainer=500m}",
        Denied("{pod}.annotations[milligpu.io/gpu]: names no container 'trainer'; there are "),
    ),
    Row(
        "annotations: {milligpu.io/gpu: 'it=500m,300m'}",
        Denied("{pod}.annotations[milligpu.io/gpu]: 'it=500m,300m': ", "container=value"),
    ),
    Row(
        "annotations: {milligpu.io/gpu: 'it=500m,it=500m'}",
        Denied("{pod}.annotations[milligpu.io/gpu]: 'it=500m,it=500m': ", "'it' twice"),
    ),
    Row(
        "annotations: {milligpu.io/framework: caffe}, limits: {gpu: 300m}",
        Denied("{pod}.annotations[milligpu.io/framework]: 'caffe' is not allowed; allowed: te"),
    ),
    Row(
        "annotations: {milligpu.io/cpu-throttle: 'on'}, limits: {gpu: 300m}",
        Denied("{pod}.annotations[milligpu.io/cpu-throttle]: 'on' is not allowed; allowed: off"),
    ),
    # A count by hand.
    Row("limits: {milligpu.io/vgpu: 30}", Share(30), api_templates=Unsent()),
    Row("limits: {milligpu.io/vgpu: '100'}", Share(100), api_templates=Unsent()),
    Row("limits: {milligpu.io/vgpu: 30}, annotations: {milligpu.io/gpu: it=300m}", Share(30)),
    Row("limits: {milligpu.io/vgpu: 0}", Untouched(), api_templates=Unsent()),
    Row(
        "limits: {milligpu.io/vgpu: 150}",
        Denied("{it}.resources.limits[milligpu.io/vgpu]: 150 ", SLOTS),
        api_templates=Unsent(),
    ),
    Row(
        "limits: {milligpu.io/vgpu: 300m}",
        Denied("{it}.resources.limits[milligpu.io/vgpu]: 300m ", SLOTS),
        api_templates=NO_INTEGER,
    ),
    Row(
        "limits: {milligpu.io/vgpu: -1}",
        Denied("{it}.resources.limits[milligpu.io/vgpu]: -1 ", SLOTS),
        api_templates=Refused("must be greater than or equal to 0"),
    ),
    Row(
        "limits: {milligpu.io/pgpu: 1500m}",
        Denied("{it}.resources.limits[milligpu.io/pgpu]: 1500m is not allowed", "1, 2, ..."),
        api_templates=NO_INTEGER,
    ),
    # Two things in one container.
    Row(
        "limits: {gpu: 300m, milligpu.io/gpu: 500m}",
        Denied(
            "{it}: two different asks: resources.limits[gpu]: 300m"
            " and resources.limits[milligpu.io/gpu]: 500m; keep one"
        ),
    ),
    Row(
        "limits: {gpu: 300m, nvidia.com/gpu: 500m}",
        Denied("{it}: two different asks: ", "limits[nvidia.com/gpu]: 500m", "keep one"),
    ),
    Row(
        "limits: {gpu: 300m}, annotations: {milligpu.io/gpu: it=500m}",
        Denied("{it}: two different asks: ", "annotations[milligpu.io/gpu]: 500m", "keep one"),
    ),
    Row(
        "limits: {gpu: 300m}, annotations: {milligpu.io/gpu: 500m}",
        Denied("{it}: two different asks: ", "annotations[milligpu.io/gpu]: 500m", "keep one"),
        places=APP,
    ),
    Row(
        "limits: {gpu: 300m, nvidia.com/gpu: 1}",
        Denied("{it}.resources.limits[gpu]: 300m beside nvidia.com/gpu: 1; ", KEEP_ONE),
    ),
    Row(
        "limits: {gpu: 300m, nvidia.com/mig-1g.5gb: 1}",
        Denied("{it}.resources.limits[gpu]: 300m beside nvidia.com/mig-1g.5gb: 1; ", KEEP_ONE),
    ),
    Row(
        "limits: {gpu: 300m, amd.com/gpu: 1}",
        Denied("{it}.resources.limits[gpu]: 300m beside amd.com/gpu: 1; ", KEEP_ONE),
    ),
    Row(
        "limits: {nvidia.com/gpu: 1}, annotations: {milligpu.io/gpu: it=300m}",
        Denied("{pod}.annotations[milligpu.io/gpu]: 300m beside nvidia.com/gpu: 1; ", KEEP_ONE),
    ),
    Row(
        "limits: {gpu: 300m, milligpu.io/vgpu: 20}",
        Denied("{it}.resources.limits[gpu]: 300m beside milligpu.io/vgpu: 20; ", KEEP_ONE),
    ),
    Row(
        "limits: {gpu: 0, milligpu.io/vgpu: 20}",
        Denied("{it}.resources.limits[gpu]: 0 beside milligpu.io/vgpu: 20; ", KEEP_ONE),
    ),
    Row(
        "limits: {gpu: 300m, milligpu.io/pgpu: 1}",
        Denied("{it}.resources.limits[gpu]: 300m beside milligpu.io/pgpu: 1; ", KEEP_ONE),
    ),
    Row(
        "limits: {milligpu.io/vgpu: 20}, annotations: {milligpu.io/gpu: it=300m}",
        Denied("{pod}.annotations[milligpu.io/gpu]: 300m beside milligpu.io/vgpu: 20; ", KEEP_ONE),
    ),
    Row(
        "limits: {milligpu.io/vgpu: 30, nvidia.com/gpu: 1}",
        Denied("{it}.resources.limits: milligpu.io/vgpu: 30 beside nvidia.com/gpu: 1; ", KEEP_ONE),
        api_templates=Unsent(),
    ),
    Row(
        "limits: {milligpu.io/vgpu: 30, nvidia.com/mig-1g.5gb: 1}",
        Denied("{it}.resources.limits: milligpu.io/vgpu: 30 beside nvidia.com/mig-1g", KEEP_ONE),
        api_templates=Unsent(),
    ),
    Row(
        "limits: {milligpu.io/vgpu: 30, milligpu.io/pgpu: 1}",
        Denied("{it}.resources.limits: milligpu.io/", " beside milligpu.io/", KEEP_ONE),
        api_templates=Unsent(),
    ),
    # Requests.
    Row(
        "requests: {gpu: 300m}",
        Denied("{it}.resources.requests[gpu]: 300m is a request without a limit; ", ONCE),
    ),
    Row(
        "requests: {nvidia.com/gpu: 300m}",
        Denied("{it}.resources.requests[nvidia.com/gpu]: 300m is a request without ", ONCE),
    ),
    Row(
        "limits: {gpu: 500m}, requests: {gpu: 300m}",
        Denied("{it}.resources.requests[gpu]: 300m differs from the limit 500m; ", ONCE),
    ),
    Row(
        "limits: {gpu: 300m}, requests: {milligpu.io/gpu: 300m}",
        Denied("{it}.resources.requests[milligpu.io/gpu]: 300m is a request without ", ONCE),
    ),
    Row(
        "requests: {milligpu.io/vgpu: 30}",
        Denied("{it}.resources.requests[milligpu.io/vgpu]: 30 is a request without ", ONCE),
        api_templates=NO_LIMIT,
    ),
    Row(
        "limits: {milligpu.io/vgpu: 50}, requests: {milligpu.io/vgpu: 30}",
        Denied("{it}.resources.requests[milligpu.io/vgpu]: 30 differs from the limit 50; ", ONCE),
        api_templates=UNEQUAL,
    ),
    # Annotations on a workload that belong on its pods; annotations that we do not know.
    Row(
        "workload: {milligpu.io/gpu: 300m}",
        Untouched("annotation milligpu.io/gpu on metadata has no effect; it belongs on {pod}"),
        kinds=tuple(TEMPLATES),
    ),
    Row(
        "workload: {milligpu.io/framework: none}, limits: {gpu: 300m}",
        Share(30, says="milligpu.io/framework on metadata has no effect; it belongs on {pod}"),
        kinds=tuple(TEMPLATES),
    ),
    Row(
        "annotations: {milligpu.io/gpus: 300m}",
        Untouched("annotation milligpu.io/gpus is unknown to this release and has no effect"),
    ),
    # Variables that would undo what the plugin gives.
    *(
        Row(
            f"limits: {{gpu: 300m}}, env: [{entry}, {{name: A, value: b}}]", Share(30, removes=name)
        )
        for name, entry in {
            "NVIDIA_VISIBLE_DEVICES": "{name: NVIDIA_VISIBLE_DEVICES, value: all}",
            "CUDA_VISIBLE_DEVICES": "{name: CUDA_VISIBLE_DEVICES, value: '0'}",
            "CUDA_MPS_PIPE_DIRECTORY": "{name: CUDA_MPS_PIPE_DIRECTORY, value: /x}",
            "NVIDIA_GPU_MEMORY_LIMIT": "{name: NVIDIA_GPU_MEMORY_LIMIT, value: 1g}",
            "MILLIGPU_SHARE": f"{{name: MILLIGPU_SHARE, {ELSEWHERE}}}",
        }.items()
    ),
    Row(
        "annotations: {milligpu.io/gpu: it=300m},"
        f" env: [{{name: NVIDIA_VISIBLE_DEVICES, {ELSEWHERE}}}]",
        Share(30, removes="NVIDIA_VISIBLE_DEVICES"),
    ),
    Row(
        "limits: {gpu: 300m}, envFrom: [{configMapRef: {name: settings}}]",
        Share(30, says="envFrom cannot be seen into"),
    ),
    Row("env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]", Untouched(), api=Unsent()),
]
