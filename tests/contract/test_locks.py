"""The lock files: every version is chosen, every file is known by its hash, no address is named."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-site.lock")
NAME = re.compile(r"[A-Za-z0-9._-]+")


def name(requirement: str) -> str:
    """Return the package that a line is about, as PEP 503 spells it."""
    return re.sub(r"[-_.]+", "-", NAME.findall(requirement)[0]).lower()


def entries(lock: str) -> dict[str, str]:
    """Return what the lock says of each package, by its name."""
    lines = re.sub(r" *#.*", "", (ROOT / lock).read_text()).replace("\\\n", " ").splitlines()
    return {name(line): line for line in lines if line.strip()}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_has_one_version_and_hashes_and_no_address(lock: str) -> None:
    for line in entries(lock).values():
        assert re.fullmatch(r"[a-z0-9-]+==[^ ;]+( ; [^-]+)?( +--hash=sha256:[0-9a-f]{64})+ *", line)
    assert "://" not in (ROOT / lock).read_text()


def test_every_dependency_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    runtime = project["project"].get("dependencies", [])
    optional = project["project"].get("optional-dependencies", {}).values()
    wanted = {*runtime, *(each for extra in optional for each in extra)}
    groups = {name: set(group) for name, group in project["dependency-groups"].items()}
    needs = (wanted, wanted | groups["dev"], groups["site"])
    for lock, needed in zip(LOCKS, needs, strict=True):
        assert set(map(name, needed)) <= entries(lock).keys()
