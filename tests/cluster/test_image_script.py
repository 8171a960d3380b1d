"""deploy/build-image.sh: which builder it takes, and what it says where there is none."""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy/build-image.sh"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A PATH without any builder."""
    (tmp_path / "sh").symlink_to("/bin/sh")
    return tmp_path


def builder(programs: Path, name: str, *, works: bool) -> None:
    """Put a builder on the PATH that says what it is asked to do, or has no daemon."""
    path = programs / name
    path.write_text(f"""#!/bin/sh
[ "$1" = info ] && exit {0 if works else 1}
echo "{name} got: $*"
""")
    path.chmod(0o755)


def build(programs: Path, *args: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    environ = {"PATH": str(programs), **environ}
    return subprocess.run(
        [str(SCRIPT), *args], env=environ, capture_output=True, text=True, check=False
    )


def test_the_first_builder_that_works_is_taken(programs: Path) -> None:
    builder(programs, "docker", works=False)
    builder(programs, "podman", works=True)
    builder(programs, "buildah", works=True)
    done = build(programs, "registry.example/milligpu:1", "--network", "host")
    assert "podman got: build -t registry.example/milligpu:1 --network host ." in done.stdout
    assert done.returncode == 0


def test_a_builder_can_be_chosen_with_options(programs: Path) -> None:
    builder(programs, "docker", works=True)
    builder(programs, "buildah", works=True)
    done = build(programs, "milligpu:1", BUILDER="buildah --root /x")
    assert "buildah got: --root /x build -t milligpu:1 ." in done.stdout


def test_where_none_works_the_message_says_what_to_install(programs: Path) -> None:
    builder(programs, "docker", works=False)
    done = build(programs, "milligpu:1")
    assert done.returncode == 1
    assert "no working docker, podman or buildah here" in done.stderr
    assert "apt-get install buildah" in done.stderr


def test_without_a_name_it_tells_its_use(programs: Path) -> None:
    done = build(programs)
    assert done.returncode == 2
    assert "usage:" in done.stderr
