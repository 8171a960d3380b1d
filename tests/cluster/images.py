"""The container images of the cluster: made here, from Debian packages, PyPI and this checkout."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.processes import ClusterError
from tests.cluster.tools import cache, ensure
from tests.cluster.tools.say import say

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
SUITE = "bookworm"
PYTHON = f"localhost/python:{SUITE}"
"""A Python on Debian: what BASE is here, where no registry of images is reached."""
BASE = ("--build-arg", f"BASE={PYTHON}")
PRODUCT = "localhost/milligpu:e2e"
PAUSE = "localhost/pause:1"
WORKLOAD = "localhost/workload:e2e"
"""Tells in its log what it was given: `tests/cluster/workload/report.py`."""
ONCE = "localhost/once:e2e"
"""The same, and ends by itself."""
SERVING = "localhost/tensorflow/serving:e2e"
"""The same in the shape of TensorFlow Serving."""
WORKLOADS = {WORKLOAD: "workload", ONCE: "once", SERVING: "serving"}
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
TRIM = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale")


@dataclass(frozen=True, slots=True)
class Builder:
    """buildah with a store of its own, below the cache."""

    run_folder: Path

    @property
    def command(self) -> list[str]:
        """The start of every command line. Its mounts are private: none is left behind."""
        store = cache.ROOT / "images"
        buildah = ["buildah", "--root", str(store), "--runroot", str(self.run_folder)]
        return ["unshare", "--mount", *buildah]

    def run(self, *argv: str, command: list[str] | None = None, cwd: Path = CHECKOUT) -> str:
        """Run buildah, or `command` in its settings. Raises ClusterError with what it said."""
        chosen = {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "overlay"}
        done = subprocess.run(
            [*(command or self.command), *argv],
            env={**os.environ, **chosen},
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ClusterError(f"{' '.join(argv[:2])}: {done.stdout[-2000:]}{done.stderr[-3000:]}")
        return done.stdout.strip()

    def has(self, image: str) -> bool:
        """Whether the store holds an image."""
        return image in self.run("images", "--format", "{{.Name}}:{{.Tag}}").splitlines()

    def from_files(self, image: str, files: Path, target: str, *settings: str) -> None:
        """Make an image of nothing but some files; `settings` as for `buildah config`."""
        container = self.run("from", "scratch")
        try:
            self.run("add", container, str(files), target)
            self.run("config", *settings, container)
            self.run("commit", container, image)
        finally:
            self.run("rm", container)

    def build(self, image: str, folder: Path, *options: str) -> None:
        """Build an image from a Dockerfile, by the same script as users do."""
        # The host's authorities: a proxy that signs for the registries may stand before us.
        trust = ("--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro")
        script = str(CHECKOUT / "deploy/build-image.sh")
        environ = ["env", f"BUILDER={' '.join(self.command)}", script, image]
        self.run("--layers", "--network", "host", *trust, *options, command=environ, cwd=folder)

    def save(self, image: str, archive: Path) -> None:
        """Write an image as an archive for containerd, of the kind that is not compressed."""
        self.run("push", "--quiet", image, f"docker-archive:{archive}:{image}")


@contextmanager
def builder() -> Iterator[Builder]:
    """Give a builder; one run at a time uses the store."""
    with cache.lock(cache.ROOT / "images.lock"), tempfile.TemporaryDirectory() as folder:
        yield Builder(Path(folder))


def archives(folder: Path) -> list[Path]:
    """Build all images of the cluster, and return them as archives in a folder."""
    with builder() as build:
        _pause(build)
        product(build)
        for image, target in WORKLOADS.items():
            build.build(image, HERE / "workload", *BASE, "--target", target)
        written = []
        for image in (PAUSE, PRODUCT, *WORKLOADS):
            written.append(folder / f"{image.replace('/', '-').replace(':', '-')}.tar")
            build.save(image, written[-1])
        return written


def product(build: Builder) -> None:
    """Build the product's image from the Dockerfile, as it is in the checkout."""
    _python(build)
    say(f"building {PRODUCT} from the Dockerfile")
    build.build(PRODUCT, CHECKOUT, *BASE)


def _pause(build: Builder) -> None:
    program = ensure(["pause"])["pause"]
    if not build.has(PAUSE):
        build.from_files(PAUSE, program, "/pause", "--entrypoint", '["/pause"]')


def _python(build: Builder) -> None:
    if build.has(PYTHON):
        return
    say(f"making a Debian {SUITE} with Python, once (about a minute)")
    with tempfile.TemporaryDirectory(dir=cache.ROOT) as folder:
        root = Path(folder) / "root"
        packages = "--include=python3,python3-venv,ca-certificates"
        command = ["debootstrap", "--variant=minbase", packages, SUITE, str(root)]
        build.run(command=command)
        for name in TRIM:
            shutil.rmtree(root / name, ignore_errors=True)
        build.from_files(PYTHON, root, "/", "--cmd", "/bin/bash")
