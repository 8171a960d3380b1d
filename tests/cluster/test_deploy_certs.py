"""The certificate keeper, with the rights that it is shipped with, against a real API server."""

import base64
import ssl
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from milligpu.processes import Program
from tests.cluster.api import Json
from tests.cluster.controlplane import ControlPlane, control_plane
from tests.cluster.keeper import keeper
from tests.cluster.webhooks import CONFIGURATION, SHIPPED
from vgpu import names

pytestmark = pytest.mark.apiserver

SECRETS = (names.SECRET_CA, names.SECRET_SERVING)
WHOLE_TURN = ["MakeCa", "SetBundles", "IssueLeaf", "Keep"]


@pytest.fixture(scope="module")
def shared() -> Iterator[ControlPlane]:
    """An API server of the module's own: without a controller-manager no namespace goes again."""
    with control_plane() as started:
        started.kubectl("apply", "-f", str(SHIPPED))
        yield started


@pytest.fixture
def plane(shared: ControlPlane) -> ControlPlane:
    """A cluster to which the manifest was just applied."""
    shared.kubectl("delete", "secret", "--all", "-n", names.NAMESPACE)
    shared.kubectl("delete", "mutatingwebhookconfiguration", "--all")
    shared.kubectl("apply", "-f", str(SHIPPED))
    return shared


def certs(
    plane: ControlPlane, folder: Path, name: str = "certs"
) -> AbstractContextManager[Program]:
    return keeper(plane, folder / name, interval="1s")


def decisions(program: Program) -> list[str]:
    return [line["decision"] for line in program.lines()]


def secret(plane: ControlPlane, name: str) -> Json:
    return plane.api.get(f"/api/v1/namespaces/{names.NAMESPACE}/secrets/{name}")


def version(obj: Json) -> str:
    return str(obj["metadata"]["resourceVersion"])


def bundle(plane: ControlPlane) -> str:
    """Return the caBundle that all entries have, as PEM."""
    entries = plane.api.read(CONFIGURATION)["webhooks"]
    (text,) = {each["clientConfig"].get("caBundle", "") for each in entries}
    return base64.b64decode(text).decode()


def shake_hands(serving: Json, bundle: str, folder: Path) -> None:
    """Have a strict client trust a server with this Secret by this caBundle, or raise."""
    for key, text in serving["data"].items():
        (folder / key).write_bytes(base64.b64decode(text))
    there, here = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cadata=bundle)
    there.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    here.verify_flags |= ssl.VERIFY_X509_STRICT
    name = f"{names.SERVICE}.{names.NAMESPACE}.svc"  # as the API server calls it
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = here.wrap_bio(down, up, server_hostname=name)
    server = there.wrap_bio(up, down, server_side=True)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert client.version() == "TLSv1.3"


def test_three_at_once_agree_and_a_second_run_changes_nothing(
    plane: ControlPlane, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        three = [stack.enter_context(certs(plane, tmp_path, f"certs-{i}")) for i in range(3)]
        for program in three:
            program.wait_until(lambda each=program: "Keep" in decisions(each))  # type: ignore[misc]
        ends = {
            line["reason"] for each in three for line in each.lines() if line["decision"] == "Keep"
        }
    assert len(ends) == 1  # they all found the same pair, and none made a second one
    ca, serving = made = [secret(plane, name) for name in SECRETS]
    assert bundle(plane) == base64.b64decode(ca["data"]["tls.crt"]).decode()
    shake_hands(serving, bundle(plane), tmp_path)

    before = [version(each) for each in (*made, plane.api.read(CONFIGURATION))]
    with certs(plane, tmp_path) as program:
        program.wait_until(lambda: "Keep" in decisions(program))
        assert program.stop() == 0
        assert decisions(program) == ["Keep"]
    made = [secret(plane, name) for name in SECRETS]
    assert [version(each) for each in (*made, plane.api.read(CONFIGURATION))] == before


def test_applying_the_manifest_again_keeps_the_bundle(plane: ControlPlane, tmp_path: Path) -> None:
    with certs(plane, tmp_path) as program:
        program.wait_until(lambda: "Keep" in decisions(program))
    before = bundle(plane)
    assert before.count("BEGIN CERTIFICATE") == 1
    for how in (("apply",), ("apply", "--server-side"), ("apply", "--server-side"), ("apply",)):
        plane.kubectl(*how, "-f", str(SHIPPED))
        assert bundle(plane) == before, how


def test_what_others_undo_is_mended(plane: ControlPlane, tmp_path: Path) -> None:
    with certs(plane, tmp_path) as program:
        program.wait_until(lambda: "Keep" in decisions(program))
        first, made = bundle(plane), secret(plane, names.SECRET_SERVING)["data"]

        plane.kubectl("delete", "mutatingwebhookconfiguration", names.WEBHOOK_CONFIGURATION)
        program.wait_until(lambda: decisions(program)[-1] == "Wait")
        plane.kubectl("apply", "-f", str(SHIPPED))
        program.wait_until(lambda: bundle(plane) == first)

        plane.kubectl("delete", "secret", names.SECRET_SERVING, "-n", names.NAMESPACE)
        program.wait_until(lambda: decisions(program)[-2:] == ["IssueLeaf", "Keep"])
        assert secret(plane, names.SECRET_SERVING)["data"] != made
        shake_hands(secret(plane, names.SECRET_SERVING), bundle(plane), tmp_path)

        half = {"data": {"tls.key": ""}}
        path = f"/api/v1/namespaces/{names.NAMESPACE}/secrets/{names.SECRET_CA}"
        plane.api.request("PATCH", path, half, "application/merge-patch+json")
        again = ["MakeCa", "SetBundles", "Wait", "IssueLeaf", "Keep"]
        program.wait_until(lambda: decisions(program)[-5:] == again)
        # What is still served is still trusted.
        assert bundle(plane).count("BEGIN CERTIFICATE") == 2
        shake_hands(secret(plane, names.SECRET_SERVING), bundle(plane), tmp_path)


def test_without_its_rights_it_says_so_and_goes_on_when_it_has_them(
    plane: ControlPlane, tmp_path: Path
) -> None:
    plane.kubectl("delete", "rolebinding", "certs", "-n", names.NAMESPACE)
    with certs(plane, tmp_path) as program:
        program.wait_until(lambda: decisions(program) == ["Wait"])
        (line,) = program.lines()
        assert 'secrets "milligpu-ca" is forbidden' in line["reason"]
        plane.kubectl("apply", "-f", str(SHIPPED))
        program.wait_until(lambda: decisions(program) == ["Wait", *WHOLE_TURN])


RIGHTS = {
    "read its Secret": ("get", "secret/milligpu-ca", names.NAMESPACE, True),
    "change its Secret": ("patch", "secret/milligpu-tls", names.NAMESPACE, True),
    "make a Secret": ("create", "secrets", names.NAMESPACE, True),
    "read another Secret": ("get", "secret/other", names.NAMESPACE, False),
    "list Secrets": ("list", "secrets", names.NAMESPACE, False),
    "watch Secrets": ("watch", "secrets", names.NAMESPACE, False),
    "delete its Secret": ("delete", "secret/milligpu-ca", names.NAMESPACE, False),
    "make a Secret elsewhere": ("create", "secrets", "default", False),
    "make a Secret at the nodes": ("create", "secrets", names.NODE_NAMESPACE, False),
    "change our configuration": ("patch", "mutatingwebhookconfiguration/milligpu", "", True),
    "change another's": ("patch", "mutatingwebhookconfiguration/other", "", False),
    "make a configuration": ("create", "mutatingwebhookconfigurations", "", False),
    "read pods": ("get", "pods", names.NAMESPACE, False),
}


@pytest.mark.parametrize("case", RIGHTS)
def test_certs_may_do_what_it_must_and_nothing_else(shared: ControlPlane, case: str) -> None:
    verb, resource, namespace, allowed = RIGHTS[case]
    place = ("-n", namespace) if namespace else ()
    user = ("--as", f"system:serviceaccount:{names.NAMESPACE}:certs")
    said = shared.kubectl("auth", "can-i", verb, resource, *user, *place, check=False)
    assert said.stdout == ("yes\n" if allowed else "no\n")
