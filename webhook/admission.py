"""AdmissionReview v1 in, AdmissionReview v1 out (admission.k8s.io/v1, KEP-1872)."""

from base64 import b64encode
from dataclasses import dataclass
from typing import Literal

from webhook.config import Config
from webhook.findings import Denied, Finding
from webhook.mutate import desired
from webhook.patch import operations
from webhook.pod import Json, encode
from webhook.review import Review

API_VERSION = "admission.k8s.io/v1"
WARNING_LENGTH = 256
"""Longest warning that the API server passes on, in characters (apiserver filters/warning.go)."""


Verdict = Literal["unchanged", "changed", "denied"]


class BadReview(ValueError):
    """The request is no AdmissionReview that can be answered; the message names what is wrong."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What to send, and what to log and count of it."""

    body: Json
    """The AdmissionReview."""
    verdict: Verdict
    uid: str
    operation: str
    kind: str
    namespace: str
    name: str
    """The object's name, or its generateName."""
    dry_run: bool
    operations: int
    """Number of patch operations."""
    warnings: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    """The warnings; or the errors, if it is denied."""


def answer(document: object, config: Config) -> Answer:
    """Answer an AdmissionReview. Raises BadReview; any other exception is our own fault."""
    request = _request(document)
    given = _mapping(request.get("object"))
    response: Json = {"uid": request["uid"], "allowed": True}
    verdict: Verdict = "unchanged"
    patch: list[Json] = []
    try:
        made, findings = _made(request, given, config)
    except Denied as denial:
        verdict, findings = "denied", denial.findings
        status = {"code": 422, "reason": "Invalid", "message": str(denial)}
        response |= {"allowed": False, "status": status}
    else:
        patch = operations(given, made)
        if findings:
            response["warnings"] = [_cut(f"milligpu: {finding}") for finding in findings]
    if patch:
        verdict = "changed"
        encoded = b64encode(encode(patch).encode()).decode()
        response |= {"patch": encoded, "patchType": "JSONPatch"}
    return Answer(
        body={"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response},
        verdict=verdict,
        uid=request["uid"],
        operation=request["operation"],
        kind=request["kind"]["kind"],
        namespace=str(request.get("namespace") or ""),
        name=str(request.get("name") or _mapping(given.get("metadata")).get("generateName") or ""),
        dry_run=request.get("dryRun") is True,
        operations=len(patch),
        warnings=tuple(response.get("warnings", ())),
        findings=findings,
    )


def _request(document: object) -> Json:
    """Return the request of a review, with the parts that are read in place."""
    match document:
        case {"apiVersion": version, "kind": "AdmissionReview"} if version != API_VERSION:
            raise BadReview(f"apiVersion must be {API_VERSION}")
        case {"apiVersion": _, "kind": "AdmissionReview", "request": dict(request)}:
            pass
        case _:
            raise BadReview(f"not an AdmissionReview of {API_VERSION} with a request")
    for field, kind in (("uid", str), ("operation", str), ("kind", dict)):
        if not (isinstance(request.get(field), kind) and request[field]):
            raise BadReview(f"request.{field} is missing or of a wrong type")
    gvk = request["kind"]
    if not (isinstance(gvk.get("group", ""), str) and isinstance(gvk.get("kind"), str)):
        raise BadReview("request.kind needs a group and a kind")
    for field in _OBJECTS.get(request["operation"], ()):
        if not isinstance(request.get(field), dict):
            raise BadReview(f"request.{field} is missing or not an object")
    return request


_OBJECTS = {"CREATE": ("object",), "UPDATE": ("object", "oldObject")}


def _made(request: Json, given: Json, config: Config) -> tuple[Json, tuple[Finding, ...]]:
    """Return what the object is to be, and warnings. Raises Denied."""
    gvk = request["kind"]
    if request["operation"] not in _OBJECTS or request.get("subResource"):
        return given, ()
    old = request["oldObject"] if request["operation"] == "UPDATE" else None
    manager = str(_mapping(request.get("options")).get("fieldManager", ""))
    resource = str(_mapping(request.get("resource")).get("resource", ""))
    review = Review(gvk.get("group", ""), gvk["kind"], given, old, manager, resource)
    made = desired(review, config)
    return made.object, tuple(made.warnings)


def _mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _cut(text: str) -> str:
    return text if len(text) <= WARNING_LENGTH else text[: WARNING_LENGTH - 3] + "..."
