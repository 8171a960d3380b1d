"""`python -m tests.cluster up|down`: the tests' cluster, left running to play with."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

from tests.cluster import images, setup
from tests.cluster.examples import give_images
from tests.cluster.node import cluster
from tests.cluster.processes import ClusterError
from tests.cluster.product import deploy
from tests.cluster.tools import ToolError, cache
from tests.cluster.tools.say import say

STATE = cache.ROOT / "cluster.json"
"""Of the running cluster: the pid of the process that holds it, and its kubeconfig."""


def up() -> None:
    """Have a process that holds a cluster, and tell how to use it once it is there."""
    setup.install()
    if _holder():
        say("it is running already")
    else:
        _start()
    programs = f"{Path(_state()['kubectl']).parent}:{Path(sys.executable).parent}"
    say(f"""
export KUBECONFIG={_state()["kubeconfig"]}
export PATH={programs}:$PATH
kubectl apply -f examples/01-three-models-one-card.yaml

The node has 200 slots, on two simulated cards. It pulls no images, and has no DNS. It has
stand-ins for the images of the examples, and {images.WORKLOAD} for manifests of your own: they
run on and tell in their log what they were given. `make cluster-down` ends it.""")


def _start() -> None:
    argv = [sys.executable, "-m", "tests.cluster", "hold"]
    holder = subprocess.Popen(argv, start_new_session=True, stdin=subprocess.DEVNULL)
    try:
        while not _holder():
            if holder.poll() is not None:
                raise ClusterError("the cluster did not start")
            time.sleep(0.2)
    except KeyboardInterrupt:
        holder.terminate()
        holder.wait()
        raise


def down() -> None:
    """End the cluster that `up` left running."""
    pid = _holder()
    if not pid:
        say("no cluster of `make cluster` is running")
        return
    say("ending the cluster")
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 60
    while _holder():
        if time.monotonic() > deadline:
            raise ClusterError(f"process {pid} does not end")
        time.sleep(0.2)


def hold() -> None:
    """Run a cluster with the product in it until SIGTERM."""
    signal.signal(signal.SIGTERM, _leave)
    with suppress(KeyboardInterrupt), cluster() as node:
        deploy(node)
        give_images(node)
        state = {"kubeconfig": str(node.plane.kubeconfig), "kubectl": str(node.plane.kubectl_path)}
        unfinished = STATE.with_suffix(".unfinished")
        unfinished.write_text(json.dumps({"pid": os.getpid(), **state}))
        unfinished.rename(STATE)
        # Whoever reads what `up` says, as in `make cluster | tee`, must not wait for our end.
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        signal.pause()
    STATE.unlink(missing_ok=True)


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _state() -> dict[str, str]:
    state: dict[str, str] = json.loads(STATE.read_text())
    return state


def _holder() -> int | None:
    """Return the pid of the process that holds a cluster, if there is one."""
    with suppress(FileNotFoundError):
        pid = int(_state()["pid"])
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return pid if b"tests.cluster" in command else None
    return None


def main(words: list[str]) -> int:
    """Carry out one word, and return the exit status."""
    commands = {"up": up, "down": down, "hold": hold}
    if len(words) != 1 or words[0] not in commands:
        sys.stderr.write("usage: python -m tests.cluster up|down\n")
        return 2
    try:
        commands[words[0]]()
    except (ClusterError, ToolError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
