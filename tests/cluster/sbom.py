"""`python -m tests.cluster.sbom milligpu.tar` lists what is in an image, beside it.

The archive is what `docker save`, `podman save` or `buildah push` write. The list is CycloneDX, in
`milligpu.cdx.json`: packages of Python and of Debian with versions and licences, files with hashes.
syft makes it.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.cluster.tools import ensure
from tests.cluster.tools.say import say
from tests.documents import ROOT


def write(archive: Path, target: Path) -> None:
    """Write the list of what is in an image's archive. Raises CalledProcessError."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    command = [str(ensure(["syft"])["syft"]), "scan", "--quiet", str(archive)]
    command += ["--source-name", project["name"], "--source-version", project["version"]]
    command += ["--output", f"cyclonedx-json={target}"]
    # All files: ours belong to no package. And it would ask its makers for a newer one.
    settings = {"SYFT_FILE_METADATA_SELECTION": "all", "SYFT_CHECK_FOR_APP_UPDATE": "false"}
    environ = {**os.environ, **settings}
    subprocess.run(command, env=environ, check=True)


def main(archives: list[str]) -> int:
    if len(archives) != 1:
        sys.stderr.write("usage: make sbom ARCHIVE=milligpu.tar\n")
        return 2
    archive = Path(archives[0])
    target = archive.with_suffix(".cdx.json")
    write(archive, target)
    say(f"{target} lists what is in {archive}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
