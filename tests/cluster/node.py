"""A complete cluster of one node on this machine, in namespaces of its own. Needs root.

with cluster() as node:
    node.plane.kubectl("apply", "-f", "deploy/webhook.yaml")
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import images, pki
from tests.cluster.api import Api, ApiError
from tests.cluster.controlplane import (
    ControlPlane,
    answers,
    apiserver,
    connect,
    etcd,
    write_kubeconfig,
)
from tests.cluster.processes import ClusterError, Processes
from tests.cluster.sandbox import ADDRESS, CGROUP, PODS, Sandbox, sandbox
from tests.cluster.tools import cache, ensure
from tests.cluster.tools.recipes import RECIPES
from tests.cluster.tools.say import say

NAME = "node1"
URL = f"https://{ADDRESS}:6443"
NAMES = (ADDRESS, "10.96.0.1", "127.0.0.1", "kubernetes.default.svc", "kubernetes")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SYNC = 60
"""Seconds between two looks of a kubelet at a pod, by default; it adds up to half of that."""
KEEP_LOGS = 5
"""Runs whose logs are kept."""
DEVICE_PLUGINS = Path("kubelet/device-plugins")
"""Below the sandbox's folder: the kubelet's folder for device plugins."""


@dataclass(frozen=True, slots=True)
class Node:
    """A running cluster."""

    plane: ControlPlane
    processes: Processes
    sandbox: Sandbox
    logs: Path

    @property
    def device_plugins(self) -> Path:
        """The kubelet's folder for device plugins, as the host sees it."""
        return self.sandbox.folder / DEVICE_PLUGINS

    def tag(self, image: str, name: str) -> None:
        """Let the node have an image under another name as well."""
        ctr = ("ctr", "--namespace", "k8s.io", "images", "tag", "--force")
        self.sandbox.run(*ctr, image, name)

    def stop_kubelet(self) -> None:
        """End the kubelet; its containers run on."""
        self.processes.stop("kubelet")

    def start_kubelet(self, status_seconds: int = 1, sync_seconds: int = SYNC) -> None:
        """Start the kubelet again, with its time between two node statuses, and two looks at a pod.

        A changed Secret reaches a pod's files with the next look at the pod.
        """
        (self.device_plugins / "kubelet.sock").unlink(missing_ok=True)
        _kubelet_configuration(self.sandbox.folder, status_seconds, sync_seconds)
        self.processes.start("kubelet", _kubelet(self.sandbox, self.plane.kubeconfig))

    def restart_kubelet(self) -> None:
        """End the kubelet and start it again; its containers run on."""
        self.stop_kubelet()
        self.start_kubelet()

    def pids(self) -> dict[str, str]:
        """Return the first process of each container, by the container's id in a pod's status.

        They are numbers as the node counts its processes: for commands inside.
        """
        tasks = self.sandbox.run("ctr", "--namespace", "k8s.io", "tasks", "list")
        lines = (line.split() for line in tasks.splitlines()[1:])
        return {f"containerd://{container}": pid for container, pid, *_ in lines}

    def kill(self, *containers: str) -> None:
        """Kill the first process of each container, known by the id in its pod's status."""
        pids = self.pids()
        self.sandbox.run("kill", "-KILL", *(pids[container] for container in containers))

    def start_again(self, *programs: str) -> None:
        """Start programs that were killed, in the order given; a machine's supervisor would.

        A program that others cannot start without answers before the next one is started.
        """
        ready = {
            "kube-apiserver": lambda: answers(self.plane.api),
            "containerd": lambda: _serves(self.sandbox),
        }
        for program in programs:
            self.processes.again(program)
            if program in ready:
                self.processes.wait(program, ready[program], timeout=60)


@contextmanager
def cluster() -> Iterator[Node]:
    """Build what is missing, start everything, and take all of it down afterwards."""
    with ExitStack() as stack:
        programs = ensure(RECIPES)
        logs = _new_logs()
        say(f"logs: {logs}")
        folders = dict.fromkeys(str(program.parent) for program in programs.values())
        inside = stack.enter_context(sandbox(logs, ":".join([*folders, SYSTEM_PATH])))
        archives = images.archives(inside.folder)
        processes = stack.enter_context(Processes(logs, inside.enter))
        say("starting the control plane and the node")
        plane = _control_plane(programs, inside, processes)
        _runtime(inside, processes, archives)
        _node(inside, processes, plane)
        processes.wait("the node", lambda: is_ready(plane.api), timeout=60)
        yield Node(plane, processes, inside, logs)


def _new_logs() -> Path:
    """Make the folder for this run's logs, and drop those of long ago."""
    home = cache.ROOT / "logs"
    logs = home / time.strftime("%Y-%m-%dT%H-%M-%S")
    for name in ("pods", "containers"):
        (logs / name).mkdir(parents=True)
    for old in sorted(home.iterdir())[:-KEEP_LOGS]:
        shutil.rmtree(old)
    return logs


def _control_plane(
    programs: dict[str, Path], inside: Sandbox, processes: Processes
) -> ControlPlane:
    """Start the store, the API server, the controllers and the scheduler."""
    folder, store = inside.folder, "http://127.0.0.1:2379"
    processes.start("etcd", etcd(programs["etcd"], folder, store, "http://127.0.0.1:2380"))
    argv = apiserver(programs["kube-apiserver"], folder, store, pki.authority(), NAMES)
    argv += ["--bind-address=0.0.0.0", f"--advertise-address={ADDRESS}", "--secure-port=6443"]
    argv += ["--enable-admission-plugins=NodeRestriction"]
    argv += ["--kubelet-preferred-address-types=InternalIP"]  # no name of the node resolves
    processes.start("kube-apiserver", argv)
    kubeconfig, api = write_kubeconfig(folder, URL), connect(folder, URL)
    processes.wait("kube-apiserver", lambda: answers(api), timeout=60)
    processes.start("kube-controller-manager", _controllers(folder, kubeconfig))
    processes.start("kube-scheduler", ["kube-scheduler", f"--config={_scheduler(folder)}"])
    return ControlPlane(api, kubeconfig, programs["kubectl"], folder)


def _controllers(folder: Path, kubeconfig: Path) -> list[str]:
    return [
        "kube-controller-manager",
        f"--kubeconfig={kubeconfig}",
        f"--root-ca-file={folder / 'pki/ca.crt'}",
        f"--service-account-private-key-file={folder / 'pki/service-accounts.key'}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
    ]


def _scheduler(folder: Path) -> Path:
    path = folder / "scheduler.yaml"
    path.write_text(f"""apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: {folder}/admin.kubeconfig}}
leaderElection: {{leaderElect: false}}
""")
    return path


def _runtime(inside: Sandbox, processes: Processes, archives: list[Path]) -> None:
    """Start containerd and give it the images."""
    processes.start("containerd", ["containerd", f"--config={_containerd(inside.folder)}"])
    processes.wait("containerd", lambda: _serves(inside), timeout=30)
    for archive in archives:
        inside.run("ctr", "--namespace", "k8s.io", "images", "import", str(archive))
        archive.unlink()


def _serves(inside: Sandbox) -> bool:
    try:
        inside.run("ctr", "version")
    except ClusterError:
        return False
    return True


def _containerd(folder: Path) -> Path:
    """Write containerd's configuration, and that of the pods' network."""
    network = folder / "cni.d/10-pods.conflist"
    network.parent.mkdir()
    # ptp: a wire and a route for each pod, so that kube-proxy sees what goes between pods.
    network.write_text(f"""{{"cniVersion": "0.4.0", "name": "pods", "plugins": [{{
  "type": "ptp", "ipMasq": false,
  "ipam": {{"type": "host-local", "ranges": [[{{"subnet": "{PODS}"}}]],
            "routes": [{{"dst": "0.0.0.0/0"}}]}}}}]}}
""")
    path = folder / "containerd.toml"
    # restrict_oom_score_adj: some virtual machines give root no CAP_SYS_RESOURCE.
    path.write_text(f"""version = 3
root = "{folder}/containerd"
state = "/run/containerd/state"
[grpc]
address = "/run/containerd/containerd.sock"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{images.PAUSE}"
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "{network.parent}"
""")
    return path


def _node(inside: Sandbox, processes: Processes, plane: ControlPlane) -> None:
    """Start the kubelet and kube-proxy."""
    _kubelet_configuration(inside.folder, status_seconds=1, sync_seconds=SYNC)
    proxy = inside.folder / "kube-proxy.yaml"
    proxy.write_text(f"""apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {{kubeconfig: {plane.kubeconfig}}}
mode: nftables
clusterCIDR: {PODS}
hostnameOverride: {NAME}
conntrack: {{maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}}
""")
    processes.start("kube-proxy", ["kube-proxy", f"--config={proxy}"])
    processes.start("kubelet", _kubelet(inside, plane.kubeconfig))


def _kubelet(inside: Sandbox, kubeconfig: Path) -> list[str]:
    return [
        "kubelet",
        f"--config={inside.folder / 'kubelet.yaml'}",
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={NAME}",
        f"--node-ip={ADDRESS}",
        "--v=2",
    ]


def _kubelet_configuration(folder: Path, status_seconds: int, sync_seconds: int) -> None:
    # nodeStatusUpdateFrequency is 10s by default: most tests would mostly wait for that.
    (folder / "kubelet.yaml").write_text(f"""apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /{CGROUP}
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: [none]
authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}
authorization: {{mode: AlwaysAllow}}
nodeStatusUpdateFrequency: {status_seconds}s
syncFrequency: {sync_seconds}s
imageGCHighThresholdPercent: 100
evictionHard:
  memory.available: "0%"
  nodefs.available: "0%"
  nodefs.inodesFree: "0%"
  imagefs.available: "0%"
resolvConf: ""
maxPods: 200
""")


def is_ready(api: Api) -> bool:
    """Whether the node takes pods, and the namespaces have what a pod needs to be created."""
    try:
        node = api.get(f"/api/v1/nodes/{NAME}")
        api.get("/api/v1/namespaces/default/serviceaccounts/default")
    except (ApiError, OSError):
        return False
    ready = {"type": "Ready", "status": "True"}
    conditions = node["status"].get("conditions", [])
    return any(ready.items() <= each.items() for each in conditions) and not _tainted(node)


def _tainted(node: dict[str, object]) -> bool:
    spec = node["spec"]
    return isinstance(spec, dict) and bool(spec.get("taints"))
