"""Which program comes from which Go module, and how it is built. Values only; nothing is run."""

import hashlib
import os
from collections import ChainMap
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
KUBERNETES = os.environ.get("K8S", "1.36.3")
"""Version of Kubernetes; there is a folder with a go.mod for each that can be had."""
CONTAINERD = "2.2.1"
HELM, HELM3, KUSTOMIZE = "4.3.2", "3.22.0", "5.8.2"
SYFT = "1.52.0"


@dataclass(frozen=True, slots=True)
class Recipe:
    """One program of one Go module."""

    module: str
    """Folder beside this file that holds go.mod, such as `kubernetes-1.36.3`."""
    package: str
    flags: tuple[str, ...]
    minutes: float
    """Rough time of a build with an empty Go cache on two cores, for the person who waits."""

    @property
    def source(self) -> Path:
        """Folder of the Go module."""
        return HERE / self.module

    def key(self) -> str:
        """Name this recipe's results: the version, and a hash over all that decides the bytes."""
        digest = hashlib.sha256(repr(self.flags).encode())
        for path in sorted(self.source.iterdir()):
            digest.update(path.read_bytes())
        return f"{self.module}-{digest.hexdigest()[:12]}"


COMMON = ("-trimpath", "-buildvcs=false", "-mod=readonly")
SMALL = (*COMMON, "-ldflags", "-s -w")


def _kubernetes(package: str, minutes: float) -> Recipe:
    major, minor = KUBERNETES.split(".")[:2]
    version = "k8s.io/component-base/version"
    stamp = f"-X {version}.gitVersion=v{KUBERNETES}"
    stamp += f" -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    flags = (*COMMON, "-ldflags", f"-s -w {stamp}")
    return Recipe(f"kubernetes-{KUBERNETES}", package, flags, minutes)


def _containerd(package: str, minutes: float) -> Recipe:
    tags = ("-tags", "no_btrfs no_devmapper no_zfs")
    path = f"github.com/containerd/containerd/v2/cmd/{package}"
    return Recipe(f"containerd-{CONTAINERD}", path, (*COMMON, "-ldflags", "-s -w", *tags), minutes)


RECIPES = {
    "etcd": _kubernetes("go.etcd.io/etcd/server/v3", 0.5),
    "kube-apiserver": _kubernetes("k8s.io/kubernetes/cmd/kube-apiserver", 4),
    "kubectl": _kubernetes("k8s.io/kubernetes/cmd/kubectl", 0.5),
    "kube-controller-manager": _kubernetes("k8s.io/kubernetes/cmd/kube-controller-manager", 1),
    "kube-scheduler": _kubernetes("k8s.io/kubernetes/cmd/kube-scheduler", 0.5),
    "kubelet": _kubernetes("k8s.io/kubernetes/cmd/kubelet", 0.5),
    "kube-proxy": _kubernetes("k8s.io/kubernetes/cmd/kube-proxy", 0.3),
    "containerd": _containerd("containerd", 1.5),
    "containerd-shim-runc-v2": _containerd("containerd-shim-runc-v2", 0.2),
    "ctr": _containerd("ctr", 0.2),
    "helm": Recipe(f"helm-{HELM}", "helm.sh/helm/v4/cmd/helm", SMALL, 1.7),
    "helm3": Recipe(f"helm-{HELM3}", "helm.sh/helm/v3/cmd/helm", SMALL, 1.1),
    "kustomize": Recipe(f"kustomize-{KUSTOMIZE}", "sigs.k8s.io/kustomize/kustomize/v5", SMALL, 0.3),
    "pause": Recipe("pause-1", ".", SMALL, 0.1),
}
RELEASE = {
    "syft": Recipe(f"syft-{SYFT}", "github.com/anchore/syft/cmd/syft", SMALL, 6),
}
"""What no cluster needs, but who publishes an image does."""
KNOWN = ChainMap(RECIPES, RELEASE)
ENVTEST = ("etcd", "kube-apiserver", "kubectl")
"""What a folder named by KUBEBUILDER_ASSETS holds."""


def versions() -> list[str]:
    """Return the versions of Kubernetes that there are recipes for."""
    return sorted(path.name.partition("-")[2] for path in HERE.glob("kubernetes-*"))
