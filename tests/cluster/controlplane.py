"""A real API server with its store, on loopback, without root: what judges the webhook.

with control_plane() as plane:
    plane.kubectl("apply", "-f", "pod.yaml")
"""

import os
import shutil
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import pki
from tests.cluster.api import Api, ApiError
from tests.cluster.processes import Processes
from tests.cluster.tools import ensure

TOKEN = "milligpu-test-admin"
PROGRAMS = ("etcd", "kube-apiserver", "kubectl")


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A running API server, and how to speak to it as an administrator."""

    api: Api
    kubeconfig: Path
    kubectl_path: Path
    folder: Path
    """Everything of it lies here; its logs in `logs`."""

    def kubectl(
        self, *args: str, stdin: str | None = None, check: bool = True
    ) -> "subprocess.CompletedProcess[str]":
        """Run kubectl and return what it said; with `check`, a failure raises and shows it."""
        argv = [str(self.kubectl_path), "--kubeconfig", str(self.kubeconfig), *args]
        # Nothing of the user's own: no cache in the home, no proxy, no other kubeconfig.
        environ = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.folder)}
        done = subprocess.run(
            argv, input=stdin, env=environ, capture_output=True, text=True, check=False
        )
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(args)}: {done.stderr or done.stdout}")
        return done


@contextmanager
def control_plane(*, extra: tuple[str, ...] = ()) -> Iterator[ControlPlane]:
    """Start etcd and kube-apiserver in a temporary folder; end and remove them afterwards.

    `extra` are more arguments for the API server. Without a controller-manager nothing makes
    service accounts or removes a deleted namespace's objects: use a new namespace per test.
    """
    programs = ensure(PROGRAMS)
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="milligpu-apiserver-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        processes = stack.enter_context(Processes(folder / "logs"))
        client, peer, port = free_ports(3)
        store = f"http://127.0.0.1:{client}"
        processes.start("etcd", etcd(programs["etcd"], folder, store, f"http://127.0.0.1:{peer}"))
        ca = pki.authority()
        argv = apiserver(programs["kube-apiserver"], folder, store, ca, ("127.0.0.1", "localhost"))
        argv += ["--bind-address=127.0.0.1", f"--secure-port={port}"]
        # No controller-manager makes the service account that this plugin would insist on.
        argv += ["--disable-admission-plugins=ServiceAccount", *extra]
        processes.start("kube-apiserver", argv)
        kubeconfig = write_kubeconfig(folder, f"https://127.0.0.1:{port}")
        api = connect(folder, f"https://127.0.0.1:{port}")
        processes.wait("kube-apiserver", lambda: answers(api), timeout=60)
        yield ControlPlane(api, kubeconfig, programs["kubectl"], folder)


def etcd(program: Path, folder: Path, client: str, peer: str) -> list[str]:
    """Return the command of a store that need not survive a power cut."""
    return [
        str(program),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
    ]


def apiserver(
    program: Path, folder: Path, store: str, ca: pki.Pair, names: tuple[str, ...]
) -> list[str]:
    """Write the API server's keys below `folder` and return its command, less its address."""
    keys = folder / "pki"
    authority, _ = ca.write(keys, "ca")
    certificate, key = pki.issue(ca, *names).write(keys, "apiserver")
    public, private = pki.token_signer().write(keys, "service-accounts")
    tokens = keys / "tokens.csv"
    tokens.write_text(f'{TOKEN},admin,1,"system:masters"\n')
    return [
        str(program),
        f"--etcd-servers={store}",
        "--service-cluster-ip-range=10.96.0.0/16",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--client-ca-file={authority}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=Node,RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={public}",
        f"--service-account-signing-key-file={private}",
        "--allow-privileged=true",
        "--profiling=false",
    ]


def write_kubeconfig(folder: Path, url: str) -> Path:
    """Write an administrator's kubeconfig and return its path."""
    path = folder / "admin.kubeconfig"
    path.write_text(f"""apiVersion: v1
kind: Config
clusters: [{{name: milligpu, cluster: {{server: "{url}", certificate-authority: pki/ca.crt}}}}]
users: [{{name: admin, user: {{token: {TOKEN}}}}}]
contexts: [{{name: milligpu, context: {{cluster: milligpu, user: admin}}}}]
current-context: milligpu
""")
    return path


def connect(folder: Path, url: str) -> Api:
    """Return a client for the API server whose keys lie below `folder`."""
    return Api(url, TOKEN, ssl.create_default_context(cafile=folder / "pki/ca.crt"))


def answers(api: Api) -> bool:
    """Whether the API server is ready, its `default` namespace included."""
    with suppress(OSError, ApiError):
        api.raw("GET", "/readyz")
        api.get("/api/v1/namespaces/default")
        return True
    return False


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens on now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
