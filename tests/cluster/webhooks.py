"""Puts the shipped webhook configuration before a webhook that runs outside the cluster."""

import base64
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from milligpu import processes
from milligpu.processes import Webhook
from tests.cluster.api import ApiError, Json
from tests.cluster.controlplane import ControlPlane
from vgpu.names import ASK, WEBHOOK_CONFIGURATION

SHIPPED = Path(__file__).parents[2] / "deploy/webhook.yaml"
KIND = "MutatingWebhookConfiguration"
CONFIGURATION = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": KIND,
    "metadata": {"name": WEBHOOK_CONFIGURATION},
}
"""As which the API server is asked for it."""


def configuration(url: str, ca: bytes, manifest: Path = SHIPPED) -> Json:
    """Return the manifest's webhook configuration, sent to a URL and trusting a CA (PEM).

    Nothing else is changed: rules, conditions and failure policies are those that users get.
    """
    documents = YAML(typ="safe").load_all(manifest)
    (found,) = [each for each in documents if each and each["kind"] == KIND]
    for webhook in found["webhooks"]:
        webhook["clientConfig"] = {"url": url, "caBundle": base64.b64encode(ca).decode()}
    config: Json = found
    return config


@contextmanager
def installed(plane: ControlPlane, url: str, ca: bytes, manifest: Path = SHIPPED) -> Iterator[None]:
    """Have the API server send reviews to `url` (such as `https://127.0.0.1:8443/mutate`)."""
    config = configuration(url, ca, manifest)
    plane.api.create(config)
    try:
        _wait_until_asked(plane)
        yield
    finally:
        plane.api.delete(config)


@contextmanager
def before(
    plane: ControlPlane, folder: Path, manifest: Path = SHIPPED, **settings: Any
) -> Iterator[Webhook]:
    """Run the real webhook in a folder, and have the API server ask it."""
    with (
        processes.webhook(folder, **settings) as started,
        installed(plane, started.url, started.ca, manifest),
    ):
        yield started


def ask(plane: ControlPlane) -> Json:
    """Have a pod with an ask judged, without creating it. Raises ApiError when it is refused."""
    container = {"name": "main", "image": "none", "resources": {"limits": {ASK: "300m"}}}
    probe: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "is-the-webhook-asked"}}
    probe["spec"] = {"containers": [container]}
    return plane.api.create(probe, query="?dryRun=All")


def _wait_until_asked(plane: ControlPlane) -> None:
    """Wait until an ask gets through: a new configuration reaches the API server in about 1 s."""
    deadline = time.monotonic() + 15
    while True:
        try:
            ask(plane)
        except ApiError as error:
            # Without the webhook the API server itself refuses the resource's name.
            if error.code != 422 or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return
