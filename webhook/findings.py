"""What is said to a person about an object: why it is denied, or what else there is to know."""

import dataclasses
from dataclasses import dataclass
from enum import Enum
from typing import Literal

Level = Literal["error", "warning", "note"]
_MOST_ERRORS = 20  # in a message that a person reads


class Code(Enum):
    """A kind of finding. Its label is stable: metrics, `milligpu lint` and the docs use it."""

    MALFORMED = "error", "a field has a JSON type or a size that Kubernetes does not allow there"
    ASK = "error", "an ask is no share of one card, and no number of whole cards"
    WHOLE_CARDS = "error", "whole cards are asked for, which the settings do not serve"
    COUNT = "error", "a count is no whole number, or more slots than a card has"
    REQUESTS = "error", "a request has no limit, or differs from it"
    CONFLICT = "error", "a container asks twice, or for a share beside another GPU resource"
    ANNOTATION = "error", "an annotation is unreadable, or names an unknown container or word"
    SHARE_CHANGED = "error", "an update would change the share of a pod, which is fixed"
    MAIN_CONTAINER = "warning", "an annotation names no container, so the first one gets the share"
    RESERVED_VARIABLE = "warning", "a variable that would undo the share is taken out of the pod"
    ENV_FROM = "warning", "variables come from where nobody can see whether they undo the share"
    VOID = "warning", "a container without a GPU, in a pod with one, is made to see none"
    MEMORY_FRACTION = "warning", "a memory fraction that is no part of the share is replaced"
    MEMORY_UNLIMITED = "warning", "the memory of TensorFlow Serving is not limited as it is started"
    UNKNOWN_ANNOTATION = "warning", "an annotation with our prefix is unknown to this release"
    UNKNOWN_RESOURCE = "warning", "a resource with a name like ours is unknown to this release"
    MISPLACED_ANNOTATION = "warning", "an annotation is on the workload, not on its pod template"
    MISPLACED_ASK = "warning", "an ask stands where nobody reads it"
    RECORD = "warning", "the record that the webhook writes into pods is written by hand"
    UNTRANSLATED = "warning", "the webhook is asked about a kind that it does not know"
    CUSTOM_RESOURCE = "note", "an ask is in a custom resource, and counts in the pods that get it"
    ROUNDED = "note", "the share is no whole number of slots and is rounded up"
    CPU_LIMIT = "note", "the pod gets a CPU limit with its share"

    def __init__(self, level: Level, meaning: str) -> None:
        self.level = level
        self.meaning = meaning
        self.label = self._name_.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to say of one place in an object."""

    code: Code
    at: str = dataclasses.field(compare=False)
    """Field path of the container, or of the pod; it may change in an update, the rest is equal."""
    field: str
    """Rest of the path."""
    text: str
    container: str = ""
    """Name of the container."""

    @property
    def path(self) -> str:
        """The whole field path."""
        return path(self.at, self.field)

    def __str__(self) -> str:
        if self.code.level == "error":
            return f"{self.path}: {self.text}"
        return f"container {self.container}: {self.text}" if self.container else self.text


class Denied(Exception):
    """The object is refused, for all of its errors; there may be warnings besides."""

    def __init__(self, *findings: Finding) -> None:
        self.findings = tuple(each for each in findings if each.code.level == "error")
        self.warnings = tuple(each for each in findings if each.code.level != "error")
        more = len(self.findings) - _MOST_ERRORS
        said = [*map(str, self.findings[:_MOST_ERRORS]), *[f"and {more} more"] * (more > 0)]
        super().__init__("; ".join(said))


def malformed(at: str, field: str, text: str) -> Denied:
    """Return what to raise for a part that is not of the shape that it must have."""
    return Denied(Finding(Code.MALFORMED, at, field, text))


def path(*parts: str) -> str:
    """Join the parts of a field path; an empty one is the object itself."""
    return ".".join(filter(None, parts))
