"""The earlier state of milligpu that upgrades start at: its files and its image, from its commit.

Until there is a release, that is the commit with which the plugin was complete.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import images
from tests.cluster.processes import ClusterError
from tests.cluster.tools import cache
from tests.cluster.tools.say import say

COMMIT = "17abe13b3ea55f9b4e837790264905de9baddde3"
IMAGE = f"localhost/milligpu:{COMMIT[:7]}"


@contextmanager
def checkout() -> Iterator[Path]:
    """Give a folder with the commit's files. Raises ClusterError where they cannot be had."""
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(_git("archive", COMMIT), capture_output=True, check=False)
        if packed.returncode != 0:
            raise ClusterError(
                f"the earlier state is commit {COMMIT}, which cannot be had here:"
                f" {packed.stderr.decode().strip()}; it needs a clone of the repository with its"
                f" history, as by `git fetch --unshallow` or `git fetch origin {COMMIT}`"
            )
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
        yield Path(folder)


def _git(*arguments: str) -> list[str]:
    """Return a git command for our checkout, which may be another user's than root's."""
    here = str(images.CHECKOUT)
    return ["git", "-C", here, "-c", f"safe.directory={here}", *arguments]


def archive(files: Path) -> Path:
    """Return the image as an archive for containerd, built of the commit's files on first use.

    The store of images must have its Python already: a cluster was there.
    """
    kept = cache.ROOT / "earlier" / f"{COMMIT}.tar"
    with images.builder() as build:
        if not kept.exists():
            say(f"building {IMAGE} from the Dockerfile of {COMMIT[:7]}, once")
            build.build(IMAGE, files, "--build-arg", f"BASE={images.PYTHON}")
            kept.parent.mkdir(exist_ok=True)
            unfinished = kept.with_suffix(".unfinished")
            unfinished.unlink(missing_ok=True)
            build.save(IMAGE, unfinished)
            unfinished.rename(kept)
    return kept
