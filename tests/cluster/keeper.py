"""The certificate keeper before an API server of the tests, with the rights that it ships with."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from milligpu import processes
from milligpu.processes import Program
from tests.cluster.controlplane import TOKEN, ControlPlane
from vgpu import names


def kubeconfig(plane: ControlPlane) -> Path:
    """Return the file by which a client is who the keeper is in its pod."""
    token = plane.kubectl("create", "token", "certs", "-n", names.NAMESPACE).stdout
    path = plane.folder / "certs.kubeconfig"
    path.write_text(plane.kubeconfig.read_text().replace(TOKEN, token))
    return path


@contextmanager
def keeper(plane: ControlPlane, log: Path, **settings: object) -> Iterator[Program]:
    """Run it until the block is left."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(kubeconfig(plane)))
        with processes.running("-m", "certs", output=log, settings=settings) as program:
            yield program
