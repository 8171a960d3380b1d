"""Helm before a cluster of the tests, as an administrator runs it."""

import os
import subprocess
from dataclasses import dataclass

from tests.cluster.controlplane import ControlPlane
from tests.cluster.tools import ensure


@dataclass(frozen=True, slots=True)
class Helm:
    """One Helm for one API server."""

    plane: ControlPlane
    program: str = "helm"
    """As the cluster's tools name it: `helm` or `helm3`."""

    def __call__(self, *arguments: str, **settings: str) -> str:
        """Run it with `--set` for each setting, and return what it prints.

        Raises AssertionError with what it said when it fails.
        """
        command = [str(ensure([self.program])[self.program]), *arguments]
        command += ["--kubeconfig", str(self.plane.kubeconfig)]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.plane.folder)}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout
