"""The certificate keeper's view of the API server, and the only place that speaks to it."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from kubernetes import client, config
from urllib3.exceptions import HTTPError

from certs.model import Bundles, Held, KeyPair, Stored
from vgpu import names
from vgpu.names import TLS_CERTIFICATE, TLS_KEY

T = TypeVar("T")
TIMEOUT = 10
"""Seconds for one request; a hanging API server must not stop the keeper."""
_AS_US = {"field_manager": "milligpu-certs"}
_NOT_FOUND, _CONFLICT = 404, 409


class Conflict(Exception):
    """Somebody else was first; read again."""


class Unavailable(Exception):
    """The API server is away or refuses us; the message says which."""


class _Missing(Unavailable):
    """There is no such object, or no namespace for it."""


class Cluster:
    """What the keeper needs of a cluster. Any method raises Unavailable."""

    def __init__(self) -> None:
        client.Configuration.get_default().retries = False  # each would have the timeout again
        self._core = client.CoreV1Api()
        self._admission = client.AdmissionregistrationV1Api()

    def held(self) -> Held:
        """Read all that is ours: both Secrets and the webhook configuration."""
        ca, serving = self._secret(names.SECRET_CA), self._secret(names.SECRET_SERVING)
        return Held(ca, serving, self._bundles())

    def store(self, secret: str, pair: KeyPair, replaces: Stored | None) -> None:
        """Create a kubernetes.io/tls Secret, or change the one that was read. Raises Conflict."""
        data = {TLS_CERTIFICATE: _text(pair.certificate), TLS_KEY: _text(pair.key)}
        body: dict[str, Any] = {"metadata": {"name": secret}, "data": data}
        if replaces is None:
            body["type"] = "kubernetes.io/tls"
            _call(self._core.create_namespaced_secret, names.NAMESPACE, body, **_AS_US)
        else:
            body["metadata"]["resourceVersion"] = replaces.version
            _call(self._core.patch_namespaced_secret, secret, names.NAMESPACE, body, **_AS_US)

    def set_bundles(self, entries: Mapping[str, bytes], replaces: Bundles) -> None:
        """Patch the caBundles of these entries, which are found by name. Raises Conflict."""
        clients = ((name, {"caBundle": _text(bundle)}) for name, bundle in entries.items())
        webhooks = [{"name": name, "clientConfig": client} for name, client in clients]
        body = {"metadata": {"resourceVersion": replaces.version}, "webhooks": webhooks}
        patch = self._admission.patch_mutating_webhook_configuration
        _call(patch, names.WEBHOOK_CONFIGURATION, body, **_AS_US)

    def _secret(self, name: str) -> Stored | None:
        found = _read(self._core.read_namespaced_secret, name, names.NAMESPACE)
        if found is None:
            return None
        data = found.data or {}
        pair = KeyPair(b64decode(data.get(TLS_CERTIFICATE, "")), b64decode(data.get(TLS_KEY, "")))
        return Stored(pair, _version(found.metadata), _changed(found.metadata))

    def _bundles(self) -> Bundles | None:
        read = self._admission.read_mutating_webhook_configuration
        found = _read(read, names.WEBHOOK_CONFIGURATION)
        if found is None:
            return None
        hooks = found.webhooks or ()
        entries = {each.name: b64decode(each.client_config.ca_bundle or "") for each in hooks}
        return Bundles(entries, _version(found.metadata), _changed(found.metadata))


def connect() -> Cluster:
    """Use the service account of the pod we are in, or else the kubeconfig of a person."""
    try:
        config.load_incluster_config()  # type: ignore[no-untyped-call]
    except config.ConfigException:
        try:
            config.load_kube_config()  # type: ignore[no-untyped-call]
        except Exception as fault:  # whatever a person's file may hold
            raise Unavailable(f"neither in a pod nor with a kubeconfig: {fault}") from fault
    return Cluster()


def _version(metadata: client.V1ObjectMeta | None) -> str:
    return str(metadata and metadata.resource_version)


def _changed(metadata: client.V1ObjectMeta | None) -> datetime:
    times = [each.time for each in (metadata and metadata.managed_fields) or () if each.time]
    return max(times, default=datetime.min.replace(tzinfo=UTC))


def _text(content: bytes) -> str:
    return b64encode(content).decode()


def _read(read: Callable[..., T], *args: str) -> T | None:
    try:
        return _call(read, *args)
    except _Missing:
        return None


def _call(request: Callable[..., T], *args: Any, **options: Any) -> T:
    try:
        return request(*args, _request_timeout=TIMEOUT, **options)
    except client.ApiException as fault:
        if fault.status == _CONFLICT:
            raise Conflict from fault
        kind = _Missing if fault.status == _NOT_FOUND else Unavailable
        raise kind(f"the API server refuses: {_message(fault)}") from fault
    except HTTPError as fault:
        raise Unavailable(f"the API server does not answer: {fault}") from fault
    except ValueError as fault:  # what it says may quote a Secret
        raise Unavailable(f"no API server answers so: {type(fault).__name__}") from None


def _message(fault: client.ApiException) -> str:
    """Return the Status message, such as which right is missing."""
    try:
        return str(json.loads(fault.body or "")["message"])
    except (ValueError, LookupError, TypeError):
        return f"{fault.status} {fault.reason}"
