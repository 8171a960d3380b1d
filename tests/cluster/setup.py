"""Installs the Debian packages that a node needs, where they are missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cluster.processes import ClusterError
from tests.cluster.tools.say import say

COMMANDS = {
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "gcc": "gcc",
    "ip": "iproute2",
    "nft": "nftables",
    "runc": "runc",
    "unshare": "util-linux",
}
FILES = {
    "/usr/lib/cni/ptp": "containernetworking-plugins",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
    "/etc/ssl/certs/ca-certificates.crt": "ca-certificates",
    "/usr/include/stdio.h": "libc6-dev",
}
ALSO = "/usr/local/sbin:/usr/sbin:/sbin"
"""Where such programs lie, whatever the user's PATH says."""


def missing() -> list[str]:
    """Return the packages whose programs or files are not here."""
    path = f"{os.environ.get('PATH', '')}:{ALSO}"
    programs = [package for name, package in COMMANDS.items() if not shutil.which(name, path=path)]
    return programs + [package for name, package in FILES.items() if not Path(name).exists()]


def install() -> None:
    """Install what is missing. Raises ClusterError where that cannot be done."""
    packages = missing()
    if os.geteuid() != 0:
        raise ClusterError("a node needs root (namespaces, mounts, control groups): try sudo")
    if not packages:
        return
    if not shutil.which("apt-get"):
        needs = f"needs Debian or Ubuntu, or these installed: {', '.join(packages)}"
        raise ClusterError(f"no apt-get here; a node {needs}")
    say(f"installing {', '.join(packages)} (apt-get)")
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    options = ["--yes", "--quiet", "--no-install-recommends"]
    for argv in (["update", "--quiet"], ["install", *options, *packages]):
        done = subprocess.run(
            ["apt-get", *argv], env=environ, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise ClusterError(f"apt-get {argv[0]} failed:\n{done.stdout[-1000:]}{done.stderr}")


if __name__ == "__main__":
    try:
        install()
    except ClusterError as error:
        sys.exit(str(error))
