"""A small client of the API server, with the standard library, for tests."""

import http.client
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]
PLURALS = {"networkpolicy": "networkpolicies"}


class ApiError(Exception):
    """The API server's refusal."""

    def __init__(self, code: int, body: Json) -> None:
        self.code = code
        """HTTP status."""
        self.body = body
        """The Status object."""
        super().__init__(f"{code}: {body.get('message', body)}")


@dataclass(frozen=True, slots=True)
class Api:
    """The API server at a URL, spoken to as an administrator."""

    url: str
    token: str
    tls: ssl.SSLContext

    def request(
        self, method: str, path: str, body: Any = None, content: str = "application/json"
    ) -> Json:
        """Send a request and return the JSON answer. Raises ApiError when it is refused."""
        text = self.raw(method, path, None if body is None else json.dumps(body), content)
        answer: Json = json.loads(text)
        return answer

    def raw(
        self, method: str, path: str, body: str | None = None, content: str = "application/json"
    ) -> str:
        """Send a request and return the answer's text. Raises ApiError when it is refused."""
        place = urlsplit(self.url)
        assert place.hostname
        link = http.client.HTTPSConnection(place.hostname, place.port, context=self.tls, timeout=30)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content}
        try:
            link.request(method, path, body, headers)
            answer = link.getresponse()
            text = answer.read().decode()
        finally:
            link.close()
        if answer.status >= 300:
            raise ApiError(answer.status, _status(text))
        return text

    def get(self, path: str) -> Json:
        """Read an object or a list."""
        return self.request("GET", path)

    def create(self, obj: Json, namespace: str = "default", query: str = "") -> Json:
        """Create an object; `query` such as `?dryRun=All`."""
        return self.request("POST", collection(obj, namespace) + query, obj)

    def read(self, obj: Json, namespace: str = "default") -> Json:
        """Read the stored form of an object."""
        return self.get(f"{collection(obj, namespace)}/{obj['metadata']['name']}")

    def update(self, obj: Json, namespace: str = "default") -> Json:
        """Replace an object."""
        return self.request("PUT", f"{collection(obj, namespace)}/{obj['metadata']['name']}", obj)

    def patch(self, obj: Json, change: Json, namespace: str = "default") -> Json:
        """Change an object by a JSON merge patch."""
        path = f"{collection(obj, namespace)}/{obj['metadata']['name']}"
        return self.request("PATCH", path, change, "application/merge-patch+json")

    def delete(self, obj: Json, namespace: str = "default", policy: str = "Background") -> Json:
        """Delete an object at once, with a propagation policy for what it owns."""
        path = f"{collection(obj, namespace)}/{obj['metadata']['name']}"
        options = {"propagationPolicy": policy, "gracePeriodSeconds": 0}
        return self.request("DELETE", path, options)


def _status(text: str) -> Json:
    """Read a refusal; not everything on the way answers in JSON."""
    try:
        body = json.loads(text)
    except ValueError:
        return {"message": text}
    return body if isinstance(body, dict) else {"message": text}


CLUSTER_WIDE = frozenset({"Namespace", "Node", "PersistentVolume"})


def collection(obj: Json, namespace: str) -> str:
    """Return the path of an object's collection; its own namespace wins over the argument."""
    version, kind = obj["apiVersion"], obj["kind"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = PLURALS.get(kind.lower(), kind.lower() + "s")
    if kind in CLUSTER_WIDE or "admissionregistration" in version or kind.startswith("Cluster"):
        return f"{base}/{plural}"
    return f"{base}/namespaces/{obj['metadata'].get('namespace', namespace)}/{plural}"


def containers(pod: Json) -> Iterator[Json]:
    """Yield a pod's containers, the init containers first."""
    yield from pod["spec"].get("initContainers", [])
    yield from pod["spec"]["containers"]
