import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (
            {"MILLIGPU_LEAF_LIFE": "soon", "MILLIGPU_COLOUR": "red"},
            "bad settings:\n"
            "  MILLIGPU_COLOUR: no such setting; there are MILLIGPU_CA_LIFE, MILLIGPU_INTERVAL, "
            "MILLIGPU_LEAF_LIFE, MILLIGPU_LOG_LEVEL\n"
            "  MILLIGPU_LEAF_LIFE='soon': must be a time such as 90s, 10m, 12h or 90d\n",
        ),
        ({}, "neither in a pod nor with a kubeconfig: "),
    ],
)
def test_it_does_not_start_without_settings_or_a_cluster(
    tmp_path: Path, environ: dict[str, str], message: str
) -> None:
    home = {"HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "none"), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-m", "certs"],
        env=home | environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
    assert "Traceback" not in done.stderr
