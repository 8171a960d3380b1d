import os
import subprocess
import sys
from pathlib import Path

import pytest

KUBECONFIGS = ("", "a: [", "a: b", "current-context: 3\ncontexts: 4\nclusters: {}", "\x00")


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (
            {"MILLIGPU_LEAF_LIFE": "soon", "MILLIGPU_COLOUR": "red"},
            "bad settings:\n"
            "  MILLIGPU_COLOUR: no such setting; there are MILLIGPU_CA_LIFE, MILLIGPU_INTERVAL, "
            "MILLIGPU_LEAF_LIFE, MILLIGPU_LOG_LEVEL, MILLIGPU_SECRET_DELAY\n"
            "  MILLIGPU_LEAF_LIFE='soon': must be a time such as 90s, 10m, 12h or 90d\n",
        ),
        *(
            ({"KUBECONFIG": text}, "neither in a pod nor with a kubeconfig: ")
            for text in KUBECONFIGS
        ),
    ],
)
def test_it_does_not_start_without_settings_or_a_cluster(
    tmp_path: Path, environ: dict[str, str], message: str
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    if text := environ.get("KUBECONFIG"):
        kubeconfig.write_text(text)
    home = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-m", "certs"],
        env=home | environ | {"KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
    assert "Traceback" not in done.stderr
